"""Read curves.csv, the curves of a run, and files of the same columns; and thin the curves that are published."""

import csv
import math
import statistics
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from highway.tables.table import Epochs


class Point(NamedTuple):
    """A point of a curve; the authors' logs have only step and value, and the rest is NaN."""

    step: float
    epoch: float
    value: float
    seconds: float
    tokens: float


Curves = dict[tuple[str, str], list[Point]]  # (split, metric) -> points
Outline = tuple[tuple[str, str], ...]  # split and metric of each curve of a run
RECENT = 64  # runs whose curves stay in memory
TRAINING_ROWS = 500  # the most rows of training that a published run has of a metric
FIRST_ROWS = 100  # of these, the first ones of the run, whole
FEW_CHANGES = 100  # a metric with more changes than this changes all the time


def read_curves(path: Path) -> dict[str, Curves]:
    """Read curves by row; the row is empty in the file of a run, and columns that the file lacks become NaN."""
    by_row: dict[str, Curves] = {}
    with open(path, newline="") as file:
        lines = csv.reader(file)
        columns = {name: number for number, name in enumerate(next(lines))}
        split, metric, row = columns["split"], columns["metric"], columns.get("row")
        numbers = [columns.get(name) for name in Point._fields]
        for line in lines:
            point = Point(*[math.nan if number is None else float(line[number]) for number in numbers])
            curves = by_row.setdefault("" if row is None else line[row], {})
            curves.setdefault((line[split], line[metric]), []).append(point)
    return by_row


def curves_of(path: Path) -> Curves:
    """Return the curves of a run; those of recent runs stay in memory until their files change."""
    return _curves_at(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=RECENT)
def _curves_at(path: Path, changed: int) -> Curves:
    return read_curves(path).get("", {})


def growing(path: Path) -> Curves:
    """Return the curves of a run underway; none while a line is being written."""
    try:
        return read_curves(path).get("", {})
    except (OSError, ValueError, KeyError, IndexError, StopIteration, csv.Error):
        return {}


def mean_over(points: list[Point], epochs: Epochs) -> float:
    """Return the mean of the means of these epochs; NaN if the curve ends before the last of them.

    So the first epochs, of which published curves have more points of training, do not weigh more than later ones. An
    epoch that training did not finish is left out, unless it is the only one.
    """
    end = points[-1].epoch if points else 0.0
    last = epochs.last or max(1, math.floor(end))
    values: dict[int, list[float]] = {}  # epoch, from 1 -> what was measured in it, or at its end
    for point in points:
        if epochs.first <= (epoch := math.ceil(point.epoch)) <= last:
            values.setdefault(epoch, []).append(point.value)
    whole = values and (epochs.last is None or end >= epochs.last)
    return statistics.fmean(map(statistics.fmean, values.values())) if whole else math.nan


def thin_curves(curves: str) -> str:
    """Return the text of a curves.csv with at most TRAINING_ROWS rows of training a metric, and all other rows.

    Of a metric's rows of training, it keeps the first ones, every second, fourth or eighth of the rest, and the last
    one. So runs of different lengths keep common steps. Where a metric changes in a few rows only, as a learning rate
    that validation divides, it keeps these rows, too. Thinned curves stay as they are.
    """
    head, *lines = curves.splitlines(keepends=True)
    columns = next(csv.reader([head]))
    split, metric, value = (columns.index(name) for name in ("split", "metric", "value"))
    rows = list(csv.reader(lines))
    training: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        if row[split] == "train":
            training.setdefault(row[metric], []).append(number)
    dropped: set[int] = set()
    for numbers in training.values():
        dropped |= set(numbers) - _thinned_steps(numbers, [rows[number][value] for number in numbers])
    return head + "".join(line for number, line in enumerate(lines) if number not in dropped)


def _thinned_steps(numbers: list[int], values: list[str]) -> set[int]:
    """Return the row numbers of one metric that `thin_curves` keeps; `values` are the metric's."""
    changes = {number for number, (before, value) in zip(numbers[1:], pairwise(values), strict=True) if before != value}
    always = {*numbers[:FIRST_ROWS], numbers[-1], *(changes if len(changes) <= FEW_CHANGES else ())}
    stride = 1
    while len(chosen := always | set(numbers[::stride])) > TRAINING_ROWS:
        stride *= 2
    return chosen
