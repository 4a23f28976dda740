"""Rows beside their baselines: the difference over shared seeds."""

import math
from dataclasses import dataclass
from functools import partial

from highway.config.metrics import METRICS
from highway.errors import counted
from highway.report.collect import Collected
from highway.report.evidence import Evidence, p_text
from highway.report.statistics import compare_rows, failed_in, on_log_scale
from highway.sweep.table import Row

DASH = "—"  # in place of a difference where runs failed


@dataclass(frozen=True)
class Difference:
    """The difference of a row from its baseline in the metric of the claims; a share where ratios are compared."""

    row: Row
    base: Row
    metric: str
    digits: int
    seeds: int  # that both have; 0 if a run of one of them failed
    size: float = math.nan
    low: float = math.nan  # ends of the 95 % interval of the paired t-test; NaN with one seed
    high: float = math.nan
    failed: bool = False  # whether a run of one of the rows failed
    p: float | None = None  # of the ranks of all runs, if some failed and there are enough

    def __str__(self) -> str:
        if self.p is not None:
            return f"by ranks, p {p_text(self.p)}"
        if not self.has_size:
            return DASH if self.failed else ""
        unit = " %" if on_log_scale(self.metric) else ""
        interval = "one seed" if math.isnan(self.low) else f"{self._text(self.low)} … {self._text(self.high)}"
        return f"{self._text(self.size)}{unit} ({interval})"

    def _text(self, value: float) -> str:
        if on_log_scale(self.metric):
            return f"{100 * value:+.1f}"
        return f"{value:+.{self.digits}f}"

    @property
    def has_size(self) -> bool:
        return not math.isnan(self.size)

    @property
    def magnitude(self) -> str:
        """The difference without its sign; empty if there is none."""
        unit = " %" if on_log_scale(self.metric) else ""
        return self._text(abs(self.size)).removeprefix("+") + unit if self.has_size else ""

    @property
    def in_words(self) -> str:
        """A clause for a conclusion: `A is worse than B by 11.0 % (3 seeds)`."""
        better = (self.size < 0) == (METRICS[self.metric].better == "lower")
        word = "better" if better else "worse"
        return f"{self.row.label} is {word} than {self.base.label} by {self.magnitude} ({counted(self.seeds, 'seed')})"


def differences(collected: Collected) -> dict[str, Difference]:
    """Compare each row with its baseline, by the seeds that both have or by the ranks of all runs; return them by row.

    A baseline has no entry, nor has a row that cannot be compared with it, nor have smoke runs of a paper's table.
    """
    if collected.only_works:
        return {}
    evidence, found = Evidence(collected), {}
    for row in collected.table.rows:
        base = collected.table.base(row.id)
        ours, theirs = collected.samples[row.id], collected.samples[base] if base else ()
        if base and ours and theirs and ours != theirs and collected.comparable(row.id, base):
            found[row.id] = difference(evidence, row, collected.table.row(base))
    return found


def difference(evidence: Evidence, row: Row, base: Row) -> Difference:
    """Compare a row with its baseline."""
    metric, numbers = evidence.table.headline, evidence.numbers
    made = partial(Difference, row, base, metric, evidence.table.digits(metric))
    log = on_log_scale(metric)
    ours, theirs = (numbers.values(name, metric, log) for name in (row.id, base.id))
    compared = compare_rows(ours, theirs, numbers.floor(metric, log), evidence.rank_seeds)
    failed = bool(failed_in(ours, theirs)[0])
    if failed and compared.seeds[0] >= evidence.rank_seeds:
        return made(0, failed=True, p=float(compared.p[0]))
    if failed:
        return made(0, failed=True)
    sign = -1.0 if METRICS[metric].better == "lower" else 1.0
    mean, half, seeds = sign * float(compared.mean[0]), float(compared.half[0]), int(compared.seeds[0])
    ends = [mean, mean - half, mean + half]
    size, low, high = map(math.expm1, ends) if log else ends
    return made(seeds, size, low, high)
