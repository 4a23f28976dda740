"""Differences between rows, and each row beside its baseline."""

import math
from dataclasses import dataclass

import numpy as np

from highway.cards.metrics import METRICS
from highway.errors import counted
from highway.report.collect import Collected, Numbers
from highway.report.statistics import Comparison, compare, on_log_scale
from highway.tables.table import Row

DASH = "—"  # in place of a difference where runs failed


@dataclass(frozen=True)
class Size:
    """The size of a difference with its 95 % interval: in the unit of the metric, or as a share."""

    value: float
    low: float  # ends of the interval; NaN if a row has one run
    high: float
    digits: int
    is_share: bool

    @classmethod
    def of(cls, compared: Comparison, sign: int, digits: int, logs: bool, shift: float = 0.0) -> "Size":
        """Return the size without `shift` and in the direction of `sign`. logs: whether logarithms were compared."""
        value, half = sign * (float(compared.size[0]) - shift), float(compared.half[0])
        ends = [value, value - half, value + half]
        value, low, high = map(math.expm1, ends) if logs else ends
        return cls(value, low, high, digits, logs)

    def __str__(self) -> str:
        interval = "one run" if math.isnan(self.low) else f"{self._text(self.low)} … {self._text(self.high)}"
        return f"{self.text} ({interval})"

    @property
    def text(self) -> str:
        """The size without its interval."""
        return self._text(self.value) + self._unit

    @property
    def magnitude(self) -> str:
        """The size without its sign."""
        return self._text(abs(self.value)).removeprefix("+") + self._unit

    @property
    def _unit(self) -> str:
        return " %" if self.is_share else ""

    def _text(self, value: float) -> str:
        return f"{100 * value:+.1f}" if self.is_share else f"{value:+.{self.digits}f}"


@dataclass(frozen=True)
class Difference:
    """The difference of a row from its baseline in the metric of the claims."""

    row: Row
    base: Row
    metric: str
    runs: int  # of the row that has fewer
    size: Size | None  # None if a run of one of them failed

    def __str__(self) -> str:
        return str(self.size or DASH)

    @property
    def magnitude(self) -> str:
        """The difference without its sign; empty if there is none."""
        return self.size.magnitude if self.size else ""

    @property
    def in_words(self) -> str:
        """A clause for a conclusion: `A is worse than B by 11.0 % (3 runs)`; empty without a size."""
        if self.size is None:
            return ""
        better = (self.size.value < 0) == (METRICS[self.metric].better == "lower")
        word = "better" if better else "worse"
        return f"{self.row.label} is {word} than {self.base.label} by {self.magnitude} ({counted(self.runs, 'run')})"


def between(row: str, base: str, metric: str, numbers: Numbers) -> Comparison | None:
    """Compare two rows; None without runs of both, if they are the same runs, and if they have other data."""
    if numbers.twin(row) == numbers.twin(base) or not numbers.comparable(row, base):
        return None
    log = on_log_scale(metric)
    ours, theirs = (numbers.values(name, metric, log) for name in (row, base))
    return compare([(1.0, ours), (-1.0, theirs)], numbers.floor(metric, log)) if ours.size and theirs.size else None


def differences(collected: Collected) -> dict[str, Difference]:
    """Compare each row with its baseline, and return the differences by row.

    A baseline has no entry, nor has a row that cannot be compared with it, nor have smoke runs of a paper's table.
    """
    table, numbers = collected.table, collected.numbers
    metric, log = table.headline, on_log_scale(table.headline)
    sign = -1 if METRICS[metric].better == "lower" else 1
    found = {}
    for row in () if collected.only_works else table.rows:
        base = table.base(row.id)
        if base and (compared := between(row.id, base, metric, numbers)):
            runs = min(numbers.values(name, metric, log).size for name in (row.id, base))
            failed = bool(np.isnan(compared.size[0]))
            size = None if failed else Size.of(compared, sign, table.digits(metric), log)
            found[row.id] = Difference(row, table.row(base), metric, runs, size)
    return found
