"""Compare a run with counting: with the test loss of the frequencies in the training data.

outputs/reference/counting.yaml has that loss for each data set; highway/data/counting.py computes it.
"""

from functools import cache
from pathlib import Path

from highway.config import home
from highway.config.yaml_file import read_yaml
from highway.report.collect import Sample


def is_sound(sample: Sample, select: str) -> bool:
    """Return whether a run finished, and has learned more than counting."""
    return sample.finished and has_learned(sample, select)


def has_learned(sample: Sample, select: str) -> bool:
    """Return whether the test loss is below that of counting; True if either is unknown."""
    data, loss = sample.result["data"], sample.result["metrics"].get("test_loss")
    least = _losses().get((data.get("form", ""), data["sha256"].get("test", ""), data.get("vocabulary_sha256", "")))
    return least is None or loss is None or loss[select] < least


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
