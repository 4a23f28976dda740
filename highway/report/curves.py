"""Read curves.csv, the curves of a run, and files of the same columns."""

import csv
import math
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple


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


@lru_cache(maxsize=RECENT)
def curves_of(path: Path, sha256: str) -> Curves:
    """Return the curves of a run. `sha256`, that of the file, tells versions of it apart."""
    return read_curves(path).get("", {})
