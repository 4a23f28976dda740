"""What a record must be before anything is made of it: one sentence for what is wrong with one that is not."""

import logging
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from highway.config.metrics import METRICS
from highway.errors import Damaged
from highway.ledger import seal
from highway.ledger.files import written_atomically

log = logging.getLogger("highway")
STATUSES = ("finished", "failed", "diverged", "interrupted")
Check = Callable[[Any], bool]
NOT_A_RECORD = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)  # what reading one raises


def write_record(folder: Path, content: dict[str, Any]) -> None:
    """result.json, with the checksums of itself and of what is read with it."""
    beside = [folder / "config.yaml", folder / "curves.csv", *(folder / "probes").glob("*.npz")]
    files = seal.checksums(folder, (path for path in beside if path.exists()))
    with written_atomically(folder / "result.json") as file:
        file.write(seal.sealed({**content, "files": files}))


def intact(path: Path) -> dict[str, Any] | None:
    """The content of a result.json; None where there is none, or, with a word about it, where it or a file that
    belongs to it is damaged."""
    try:
        content = seal.opened(path.read_bytes(), path)
        seal.check_files(path.parent, content["files"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except NOT_A_RECORD as error:
        return leave_out(path.parent, f"result.json cannot be read ({type(error).__name__})")
    except Damaged as damage:
        return leave_out(path.parent, str(damage).removeprefix(f"{path.parent}/"))
    return content


def usable(path: Path) -> dict[str, Any] | None:
    """An intact record that is what a record must be; None, and a word about it, where something is wrong with it."""
    content = intact(path)
    wrong = problem(content) if content is not None else None
    return leave_out(path.parent, wrong) if wrong else content


@cache
def leave_out(folder: Path, why: str) -> None:
    """Said once."""
    log.warning("%s: %s; it does not count.", folder, why)


def problem(content: Any) -> str | None:
    """What is wrong with the content of a result.json, if anything is."""
    if not isinstance(content, dict):
        return "result.json is no record"
    for section, name, fits, words in WANTED:
        inside = content.get(section) if section else content
        if not fits(inside.get(name) if isinstance(inside, dict) else None):
            return f"{section}{'.' if section else ''}{name} is not {words}"
    if content["status"] not in ("finished", "diverged"):
        return None
    rows = content.get("rows", {})  # of a timing, which has metrics by row
    if not isinstance(rows, dict) or not all(isinstance(row, dict) and "metrics" in row for row in rows.values()):
        return "rows is not a table of rows with metrics"
    fits = _is_number if content["status"] == "finished" else _is(int, float)  # one that diverged may be no number
    tables = [content["metrics"], *(row["metrics"] for row in rows.values())]
    return next((wrong for metrics in tables if (wrong := _wrong_metric(metrics, fits))), None)


def _wrong_metric(metrics: Any, fits: Check) -> str | None:
    if not isinstance(metrics, dict):
        return "metrics is not a table of numbers"
    for name, values in metrics.items():
        if name not in METRICS:
            return f"metrics names {str(name)[:40]!r}, which is no metric"
        if not isinstance(values, dict) or not fits(values.get("best")) or not fits(values.get("last")):
            return f"metrics.{name} is not a number for best and for last"
    return None


def _is(*kinds: type) -> Check:
    """True is no number: what JSON gives is of one of these types and of none derived from them."""
    return lambda value: type(value) in kinds


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and not math.isnan(value)


def _maybe_number(value: Any) -> bool:
    return value is None or _is_number(value)


WANTED: list[tuple[str, str, Check, str]] = [  # section, key, what it must be, and that in words
    ("", "status", lambda value: value in STATUSES, f"one of {', '.join(STATUSES)}"),
    ("", "seed", lambda value: type(value) is int and value >= 0, "a whole number"),
    ("", "budget", _is(str), "a word"),
    ("", "metrics", _is(dict), "a table of numbers"),
    ("", "files", lambda value: type(value) is dict and all(map(_is(str), value.values())), "a table of checksums"),
    ("", "data", _is(dict), "a description of the data"),
    ("data", "source", _is(str), "a word"),
    ("", "cost", _is(dict), "what the run has cost"),
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
