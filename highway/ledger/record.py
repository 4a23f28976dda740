"""Write and read records: result.json, which holds its own checksum and names its run.

A record is read leniently: keys and statuses that today's code does not know are no mistake.
"""

import logging
import math
from functools import cache
from pathlib import Path
from typing import Any

from highway.config.datasets import DATASETS
from highway.errors import Corrupt
from highway.files import seal
from highway.files.writing import written_atomically

log = logging.getLogger("highway")
STATUSES = ("finished", "diverged", "failed", "interrupted")
ALWAYS: tuple[str, ...] = ("status", "cell", "seed", "budget", "metrics")  # keys of every record
COUNTED = {"classification": "labels", "music": "keys"}  # task -> what is counted; others: the unit of the text
ENDED = ("data", "environment", "cost", "parameters")  # and of a run that has finished or diverged


def write_record(folder: Path, content: dict[str, Any]) -> None:
    """Write result.json with its own checksum."""
    with written_atomically(folder / "result.json") as file:
        file.write(seal.sealed(content))


def read_record(path: Path) -> dict[str, Any] | None:
    """Return the content of a result.json; None if it is missing, or with a warning if it is corrupt or lacks a key."""
    try:
        content = seal.opened(path.read_bytes(), path)
        if wrong := problem(content):
            return leave_out(path.parent, wrong)
        belongs_to(path.parent, f"{content['cell']}/seed{content['seed']}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return leave_out(path.parent, f"result.json cannot be read ({type(error).__name__})")
    except Corrupt as damage:
        return leave_out(path.parent, str(damage).removeprefix(f"{path.parent}/"))
    if content["status"] not in STATUSES:  # of an earlier rule, which stopped trials that fell behind
        content["status"] = "interrupted"
    return content


def belongs_to(folder: Path, run: str) -> None:
    """Raise `Corrupt` if a file in the directory of one run says that it is of another run."""
    if folder.resolve().parts[-2:] != tuple(run.split("/")):
        raise Corrupt(f"it belongs to {run}")


@cache
def leave_out(folder: Path, why: str) -> None:
    """Log once that a record is left out, and return None."""
    log.warning("%s: %s. This record is left out.", folder, why)


def worse_than_counting(content: dict[str, Any], counting_loss: float | None, select: str) -> str:
    """Compare the test loss of a checkpoint (best or last) with that of the frequencies in the training data.

    Return `worse than word frequencies (639; this run 783)`, in the metric of the task; empty if the run has learned
    more than they say, or if one of the losses is unknown.
    """
    metrics, data = content["metrics"], content["data"]
    if counting_loss is None or "test_loss" not in metrics or metrics["test_loss"][select] < counting_loss:
        return ""
    card = DATASETS.get(data.get("name", ""))
    unit = card.forms.get(data.get("form", ""), "") if card else ""
    unit = COUNTED.get(card.task if card else "", unit).removesuffix("s")
    losses = [counting_loss, metrics["test_loss"][select]]
    if "test_ppl" in metrics:
        losses = [math.exp(min(loss, 700)) for loss in losses]
    elif "test_bpc" in metrics:
        losses = [loss / math.log(2) for loss in losses]
    counts, ours = (f"{value:,.0f}" if 1000 <= value < 1e6 else f"{value:.4g}" for value in losses)
    return f"worse than {f'{unit} ' if unit else ''}frequencies ({counts}; this run {ours})"


def problem(content: object) -> str | None:
    """Return what the content of a result.json lacks; None if it is a record."""
    if not isinstance(content, dict):
        return "result.json is not a record"
    needed = ALWAYS
    if content.get("status") in ("finished", "diverged"):
        needed += ENDED
    return next((f"result.json has no {key}" for key in needed if content.get(key) is None), None)
