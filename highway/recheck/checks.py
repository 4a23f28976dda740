"""Check records with today's code: their first steps of training, and their evaluation where that can be known."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from highway.config import home
from highway.config.experiment import Experiment
from highway.errors import Refused
from highway.files.device import device_name
from highway.files.plain import read_text
from highway.ledger.directory import RunDirectory
from highway.ledger.fingerprint import fingerprint
from highway.ledger.record import read_record
from highway.recheck.rescore import TOLERANCE, tested_again
from highway.recheck.training import OtherDevice, train_again
from highway.report.checks import NOT_REPEATED, Check, check_of, file_of, keep
from highway.report.curves import read_curves
from highway.run.machine import commit
from highway.use.load import experiment_of

UNKNOWN = "unknown"  # the commit of code outside a git repository


class Checked(NamedTuple):
    """The outcome of the check of one record: a sentence, and whether the record and today's code agree."""

    sentence: str
    agrees: bool | None  # None if it could not be checked


def published() -> list[Path]:
    """Return the directories of all published records."""
    return [path.parent for path in sorted(home.REFERENCE.glob("cells/*/seed*/result.json"))]


def check_records(records: Sequence[Path], outputs: Path) -> Iterator[Checked]:
    """Check records, those of the fewest seconds first; keep each check in checks.yaml and yield what it found."""
    read = {record.resolve(): read_record(record / "result.json") for record in records}
    code = commit() or UNKNOWN  # asked once: checks.yaml, which is tracked, changes with the first check
    for record in sorted(read, key=seconds):
        name, result = "/".join(record.parts[-2:]), read[record]
        try:
            if result is None or result["status"] not in ("finished", "diverged"):
                raise Refused(
                    f"{record} is not the directory of a finished run. Name one, such as {home.REFERENCE}/cells/..."
                )
            yield _checked(record, name, result, outputs, code)
        except Refused as reason:
            yield Checked(f"not checked: {reason}", None)


def seconds(record: Path) -> float:
    """Return the seconds that the run took up to its first row, to check the cheap ones first."""
    try:
        curves = read_curves(record / "curves.csv").get("", {})
        return min(points[0].seconds for points in curves.values())
    except (OSError, ValueError, LookupError, StopIteration):  # check_records says what is wrong with it
        return 0.0


def _checked(record: Path, name: str, result: dict[str, Any], outputs: Path, code: str) -> Checked:
    try:
        again, experiment = train_again(record, result, outputs)
    except OtherDevice as reason:
        return _compared_by_code(record, name, result, code, reason)
    numbers = f"loss {again.loss:.7g} at step {again.step}, recorded {again.recorded:.7g}, bound {again.bound:.1g}"
    unchanged = fingerprint(experiment) == result.get("fingerprint")
    evaluated = unchanged or evaluates_alike(RunDirectory(record), result, experiment)
    earlier = check_of(record, result)
    same_code = (unchanged and clean(code)) or (earlier is not None and earlier.same_code)
    checked = Check(*_about(name, result, code), again.device, again.step, again.word, evaluated, same_code)
    keep(file_of(record), [checked])
    evaluation = "by unchanged code" if unchanged else "of its weights as recorded" if evaluated else "not checked"
    processor = "" if again.device == result["cost"]["device"] else f", on {again.device}"
    return Checked(f"{name}: training {again.word} ({numbers}{processor}); evaluation {evaluation}", again.equal)


def _compared_by_code(record: Path, name: str, result: dict[str, Any], code: str, reason: OtherDevice) -> Checked:
    """Keep that the code of this commit is that of a record whose training cannot be repeated here, if it is.

    An earlier check that has repeated it stays.
    """
    experiment = experiment_of(read_text(record / "config.yaml"), RunDirectory(record))
    if fingerprint(experiment) != result.get("fingerprint") or not clean(code):
        raise reason
    earlier = check_of(record, result) or Check(*_about(name, result, code), device_name("cpu"), 0, NOT_REPEATED, False)
    keep(file_of(record), [replace(earlier, same_code=True)])
    return Checked(f"{reason} By its fingerprint, the record was computed by the code of commit {code}.", None)


def clean(code: str) -> bool:
    """Return True if a commit is known and has no uncommitted changes."""
    return code != UNKNOWN and not code.endswith("+")


def evaluates_alike(directory: RunDirectory, result: dict[str, Any], experiment: Experiment) -> bool:
    """Return True if the run has its weights, and they give every test metric of the record; times are no metrics."""
    if result["status"] != "finished" or not (directory.best.exists() and directory.last.exists()):
        return False
    with directory.leased():
        again, _ = tested_again(directory, experiment)
    return all(
        math.isclose(value, result["metrics"][name][which], rel_tol=TOLERANCE)
        for which, metrics in again.items()
        for name, value in metrics.items()
        if name in result["metrics"] and not name.endswith("_seconds")
    )


def _about(name: str, result: dict[str, Any], code: str) -> tuple[str, str, str, str]:
    """Return the first fields of a check made today: run, checksum of its curve, date and commit."""
    return name, result["files"]["curves.csv"], datetime.now(UTC).date().isoformat(), code
