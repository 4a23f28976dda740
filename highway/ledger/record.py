"""Write and read records: result.json, which holds its own checksum and names its run.

A record is read leniently: keys and statuses that today's code does not know are no mistake.
"""

import logging
import math
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from highway.cards.datasets import DATASETS
from highway.errors import Corrupt, Refused
from highway.keys.schema import validated
from highway.ledger.files import verified, with_checksum, written_atomically

log = logging.getLogger("highway")
STATUSES = ("finished", "diverged", "failed", "interrupted")
COUNTED = {"classification": "labels", "music": "keys"}  # task -> what is counted; others: the unit of the text


class Record(BaseModel):
    """The keys of every result.json that reports read; it may have others."""

    status: str
    cell: str
    seed: int
    budget: str
    metrics: dict[str, dict[str, float]]  # name -> value of the best and of the last checkpoint


class Ended(Record):
    """The keys of a run that has finished or diverged."""

    data: dict[str, Any]
    environment: dict[str, Any]
    cost: dict[str, Any]
    parameters: dict[str, Any]


def write_record(folder: Path, content: dict[str, Any]) -> None:
    """Write result.json with its own checksum."""
    with written_atomically(folder / "result.json") as file:
        file.write(with_checksum(content))


def read_record(path: Path) -> dict[str, Any] | None:
    """Return the content of a result.json; None if it is missing, or with a warning if it is corrupt or lacks a key."""
    try:
        content = verified(path.read_bytes(), path)
        check_record(content)
        belongs_to(path.parent, f"{content['cell']}/seed{content['seed']}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return leave_out(path.parent, f"result.json cannot be read ({type(error).__name__})")
    except Refused as wrong:
        return leave_out(path.parent, str(wrong).removeprefix(f"{path.parent}/").removesuffix("."))
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


def check_record(content: Any) -> None:
    """Refuse the content of a result.json that lacks what reports read."""
    ended = isinstance(content, dict) and content.get("status") in ("finished", "diverged")
    validated(Ended if ended else Record, content, "result.json")
