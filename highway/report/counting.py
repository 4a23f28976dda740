"""Compare a run with counting: its test loss with that of the frequencies in the training data.

A record has that loss since highway/data/counting.py computes it at the start of a run;
outputs/reference/counting.yaml has it for earlier records.
"""

from functools import cache
from pathlib import Path

from highway.cards.metrics import METRICS
from highway.config import home
from highway.keys.yaml_file import read_yaml
from highway.ledger.record import worse_than_counting
from highway.report.sample import Sample


def is_sound(sample: Sample, select: str) -> bool:
    """Return whether a run finished, and has learned more than counting."""
    return sample.finished and not unlearned(sample, select)


def unlearned(sample: Sample, select: str) -> str:
    """Return in words that a run has not learned, with both numbers; empty if it has."""
    return worse_than_counting(sample.result, _counting_loss(sample), select)


def is_unchecked(sample: Sample) -> bool:
    """Return whether a run finished and measured quality, but cannot be compared with counting: it counts as sound."""
    metrics = sample.result["metrics"]
    if not sample.finished or not any(METRICS[name].measures_quality for name in metrics if name in METRICS):
        return False
    return _counting_loss(sample) is None or "test_loss" not in metrics


def _counting_loss(sample: Sample) -> float | None:
    data = sample.result["data"]
    key = (data.get("form", ""), data["sha256"].get("test", ""), data.get("vocabulary_sha256", ""))
    return data.get("counting_loss") or _losses().get(key)


def examples(sample: Sample, split: str | None) -> int | None:
    """Return the number of examples of a split, or None if the record does not say."""
    data = sample.result["data"]
    return next((data[unit].get(split) for unit in ("images", "pieces", "symbols") if unit in data), None)


def _losses() -> dict[tuple[str, str, str], float]:
    return _read(home.REFERENCE / "counting.yaml")


@cache
def _read(path: Path) -> dict[tuple[str, str, str], float]:
    try:
        entries = read_yaml(path)
    except FileNotFoundError:
        return {}
    return {(entry["form"], entry["test"], entry["vocabulary"]): entry["test_loss"] for entry in entries}
