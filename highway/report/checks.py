"""The checks of records with later code. checks.yaml, beside the folder `cells` of the records, has one entry a record.

`highway records check` writes it. An entry holds for the record whose curves.csv has its sha256.
"""

import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from highway.config.yaml_file import read_yaml
from highway.errors import Refused
from highway.files.writing import write_text
from highway.report.provenance import CHECKED, OTHERWISE, TRAINING_CHECKED

log = logging.getLogger("highway")
HEAD = (
    "# Written by: highway records check. Each record was trained up to `step` by the code of `commit`; at step 0,\n"
    "# where this was not possible, its fingerprint was compared with that of this code.\n"
)
NOT_REPEATED = "not repeated"  # a check on a machine without the device of the record


@dataclass(frozen=True)
class Check:
    """A check of a record: whether the code of a commit trains its first steps, and evaluates it, in the same way.

    If the training cannot be repeated, it says only that the fingerprint of this code is that of the record.
    """

    run: str  # <model>-<hash12>/seed<k>
    curves: str  # sha256 of the record's curves.csv
    date: str
    commit: str
    device: str
    step: int
    training: str  # `equal to the digit`, `equal within rounding`, `different from step N` or NOT_REPEATED
    evaluation: bool  # True if it is checked, too
    same_code: bool = False  # True if the fingerprint of the record is that of a commit without changes

    @property
    def repeated(self) -> bool:
        """Return True if the first steps were trained again."""
        return self.training != NOT_REPEATED

    @property
    def equal(self) -> bool:
        """Return True if the training was the record's, to the digit or within rounding."""
        return self.training.startswith("equal")

    @property
    def mark(self) -> str:
        """The mark of a record whose first steps were trained again."""
        if not self.equal:
            return OTHERWISE
        return CHECKED if self.evaluation else TRAINING_CHECKED

    @property
    def when(self) -> str:
        """The day of the check, and its code."""
        changed = " with uncommitted changes" if self.commit.endswith("+") else ""
        return f"on {self.date} with the code of commit {self.commit[:7]}{changed}"


def file_of(record: Path) -> Path:
    """Return the path of the checks of a record: <folder>/checks.yaml for <folder>/cells/<run>/seed<k>."""
    return record.parents[2] / "checks.yaml"


def check_of(record: Path, result: dict[str, Any]) -> Check | None:
    """Return the check of a record; None if nobody has checked it as it is."""
    path = file_of(record)
    check = _readable(path, path.stat().st_mtime_ns).get("/".join(record.parts[-2:])) if path.exists() else None
    return check if check and check.curves == result["files"].get("curves.csv") else None


@cache
def _readable(path: Path, changed: int) -> dict[str, Check]:
    """Return the checks in a file by run; warn of a file that cannot be read, and return none.

    `changed`, when the file was written, makes a new version be read.
    """
    try:
        return _read(path)
    except Refused as refused:
        log.warning("%s Its checks do not count.", refused)
        return {}


def _read(path: Path) -> dict[str, Check]:
    try:
        return {entry["run"]: Check(**entry) for entry in read_yaml(path)}
    except (TypeError, KeyError) as error:
        raise Refused(f"{path} is no list of checks. Restore it with git, or delete it.") from error


def keep(path: Path, checks: Iterable[Check]) -> None:
    """Add checks to a file, each in place of an earlier one of its run."""
    kept = _read(path) if path.exists() else {}
    whole = {**kept, **{check.run: check for check in checks}}
    entries = [asdict(whole[run]) for run in sorted(whole)]
    write_text(path, HEAD + yaml.safe_dump(entries, sort_keys=False))
