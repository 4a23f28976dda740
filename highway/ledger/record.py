"""Write and read records, and check what is read: one sentence says what is wrong with a record."""

import logging
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from highway.config.metrics import METRICS
from highway.errors import Corrupt
from highway.files import seal
from highway.files.writing import written_atomically

log = logging.getLogger("highway")
STATUSES = ("finished", "failed", "diverged", "interrupted")
Check = Callable[[Any], bool]
NOT_A_RECORD = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
)  # raised by a wrong record


def write_record(folder: Path, content: dict[str, Any]) -> None:
    """Write result.json, with its own checksum and those of the files that are read with it."""
    companions = [folder / "config.yaml", folder / "curves.csv", *(folder / "probes").glob("*.npz")]
    files = seal.checksums(folder, (path for path in companions if path.exists()))
    with written_atomically(folder / "result.json") as file:
        file.write(seal.sealed({**content, "files": files}))


def intact(path: Path) -> dict[str, Any] | None:
    """Return the content of a result.json; None if it is missing.

    Also None, with a warning, if it or a file that belongs to it is corrupt.
    """
    try:
        content = seal.opened(path.read_bytes(), path)
        if "cell" in content:
            belongs_to(path.parent, f"{content['cell']}/seed{content['seed']}")
        seal.check_files(path.parent, content["files"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except NOT_A_RECORD as error:
        return leave_out(path.parent, f"result.json cannot be read ({type(error).__name__})")
    except Corrupt as damage:
        return leave_out(path.parent, str(damage).removeprefix(f"{path.parent}/"))
    return content


def belongs_to(folder: Path, run: str) -> None:
    """Raise `Corrupt` if a file in the directory of one run says that it is of another run."""
    if folder.resolve().parts[-2:] != tuple(run.split("/")):
        raise Corrupt(f"it belongs to {run}")


def usable(path: Path) -> dict[str, Any] | None:
    """Return the content of an intact and valid record; otherwise None, with a warning if it is there."""
    content = intact(path)
    wrong = problem(content) if content is not None else None
    return leave_out(path.parent, wrong) if wrong else content


@cache
def leave_out(folder: Path, why: str) -> None:
    """Log once that a record is left out, and return None."""
    log.warning("%s: %s. This record is left out.", folder, why)


def problem(content: object) -> str | None:
    """Return what is wrong with the content of a result.json; None if it is valid."""
    if not isinstance(content, dict):
        return "result.json is not a record"
    for section, name, fits, description in SCHEMA:
        values = content.get(section) if section else content
        if not fits(values.get(name) if isinstance(values, dict) else None):
            return f"{section}{'.' if section else ''}{name} is not {description}"
    if content["status"] not in ("finished", "diverged"):
        return None
    rows = content.get("rows", {})  # a timing has metrics for each row
    if not isinstance(rows, dict) or not all(isinstance(row, dict) and "metrics" in row for row in rows.values()):
        return "rows is not a table of rows with metrics"
    fits = _is_number if content["status"] == "finished" else _is(int, float)  # the metric of a diverged run may be NaN
    tables = [content["metrics"], *(row["metrics"] for row in rows.values())]
    return next((wrong for metrics in tables if (wrong := _wrong_metric(metrics, fits))), None)


def _wrong_metric(metrics: object, fits: Check) -> str | None:
    if not isinstance(metrics, dict):
        return "metrics is not a table of numbers"
    for name, values in metrics.items():
        if name not in METRICS:
            return f"metrics names {str(name)[:40]!r}, which is not a metric"
        if not isinstance(values, dict) or not fits(values.get("best")) or not fits(values.get("last")):
            return f"metrics.{name} is not a number for best and for last"
    return None


def _is(*kinds: type) -> Check:
    """Return a check for exactly these types: `True` is an int to isinstance, and not a number here."""
    return lambda value: type(value) in kinds


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and not math.isnan(value)


def _maybe_number(value: object) -> bool:
    return value is None or _is_number(value)


SCHEMA: list[tuple[str, str, Check, str]] = [  # section, key, check, description of a valid value
    ("", "status", lambda value: value in STATUSES, f"one of {', '.join(STATUSES)}"),
    ("", "cell", _is(str), "the name of a run's folder"),
    ("", "seed", lambda value: type(value) is int and value >= 0, "a whole number"),
    ("", "budget", _is(str), "a word"),
    ("", "metrics", _is(dict), "a table of numbers"),
    ("", "files", lambda value: type(value) is dict and all(map(_is(str), value.values())), "a table of checksums"),
    ("", "data", _is(dict), "a description of the data"),
    ("data", "source", _is(str), "a word"),
    ("", "cost", _is(dict), "a table of costs"),
    *(("cost", key, _maybe_number, "a number") for key in ("seconds", "tokens_per_second", "peak_memory_bytes")),
    *(("parameters", key, _maybe_number, "a number") for key in ("total", "gate")),
    ("", "parameters", _is(dict, type(None)), "a table of numbers"),
    ("", "command", _is(str, type(None)), "a command"),
    ("", "error", _is(str, type(None)), "a text"),
    ("cost", "device", _is(str), "the name of a device"),
    ("", "environment", _is(dict), "a description of the machine"),
    ("environment", "versions", _is(dict), "a list of versions"),
    ("environment", "precision", _is(str), "a word"),
    ("environment", "git_commit", _is(str, type(None)), "a commit"),
    ("", "fingerprint", _is(str, type(None)), "a fingerprint of code"),
    ("", "revision", _is(dict, type(None)), "a table of revisions"),
]
