"""Everything that a report infers: tests of claims, intervals, the paper's number. docs/STATISTICS.md has the rules.

Shapes: B tables (one in a report, thousands in scripts/simulate.py) and S seeds. The runs of a row are (B, S) on a
scale on which higher is better. NaN: there is no such run. -inf: the run failed.
"""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from highway.config.metrics import METRICS
from highway.sweep.table import Claim

Array = NDArray[np.float64]
LEVEL = 0.05
ENOUGH_SEEDS = 3  # for a verdict on a claim, and for a prediction interval
WIDEST = 0.05  # half of a prediction interval, as a share of the paper's number


def kendall_tau(ours: Sequence[float], papers: Sequence[float]) -> float | None:
    """Return Kendall's tau-b of two orders of the same rows (1: equal, -1: reversed); None if all values are equal."""
    if len(set(ours)) < 2 or len(set(papers)) < 2:
        return None
    from scipy import stats  # takes half a second to import

    return float(stats.kendalltau(ours, papers).statistic)


def on_log_scale(metric: str) -> bool:
    """Return whether the spread of a metric grows with its mean, so that ratios are compared."""
    card = METRICS[metric]
    return card.kind == "ppl" or card.unit in ("seconds", "hours", "tokens a second", "MiB")


@dataclass(frozen=True)
class PairTest:
    """The two-sided test of one row against another in B tables; fields are (B,)."""

    sign: Array  # 1: the row is ahead, -1: behind
    p: Array  # 1 where nothing can be tested
    seeds: NDArray[np.intp]  # the number of differences; where ranks are compared, the runs of the row that has fewer
    mean: Array  # of the paired differences; NaN where ranks are compared
    half: Array  # half the length of the 95 % interval of that mean; NaN with one seed


def compare_paired(differences: Array, floor: float) -> PairTest:
    """Test by Student's t that the mean of differences (B, S) is zero. Their deviation is at least `floor`."""
    known = ~np.isnan(differences)
    count = known.sum(1)
    testable, freedom = count > 1, np.maximum(count - 1, 1)
    mean = np.where(known, differences, 0).sum(1) / np.maximum(count, 1)
    squares = np.where(known, (differences - mean[:, None]) ** 2, 0).sum(1)
    error = np.maximum(np.sqrt(squares / freedom), floor) / np.sqrt(np.maximum(count, 1))
    t = np.divide(mean, error, out=np.zeros_like(mean), where=error > 0)
    p = np.where(testable, 2 * special.stdtr(freedom, -np.abs(t)), 1.0)
    half = np.where(testable, special.stdtrit(freedom, 1 - LEVEL / 2) * error, np.nan)
    return PairTest(np.sign(mean), p, count, np.where(count > 0, mean, np.nan), half)


def compare_ranks(row: Sequence[float], than: Sequence[float]) -> tuple[float, float]:
    """Return sign and p-value of the exact two-sided rank-sum test; failed runs are alike, and worse than others."""
    from scipy import stats

    doubled = np.rint(2 * stats.rankdata([*row, *than])).astype(int)
    chances = _rank_sums(tuple(sorted(doubled.tolist())), len(row))
    total = int(doubled[: len(row)].sum())
    above, below = float(chances[total:].sum()), float(chances[: total + 1].sum())
    return float(np.sign(below - above)), min(2 * above, 2 * below, 1.0)


@cache
def _rank_sums(doubled_ranks: tuple[int, ...], size: int) -> Array:
    """Return the probability of each sum of `size` of these numbers, drawn without replacement."""
    ways = np.zeros((size + 1, sum(doubled_ranks) + 1))
    ways[0, 0] = 1
    for rank in doubled_ranks:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    return ways[size] / ways[size].sum()


def compare_rows(row: Array, than: Array, floor: float, rank_seeds: int) -> PairTest:
    """Compare runs (B, S) by the differences at shared seeds; in tables in which runs failed, by the ranks of all runs.

    rank_seeds: the runs of each row from which ranks are compared.
    """
    compared = compare_paired(advantage(row, than), floor)
    for table in np.flatnonzero(failed_in(row, than)):
        ours, theirs = (runs[table][~np.isnan(runs[table])].tolist() for runs in (row, than))
        compared.seeds[table] = min(len(ours), len(theirs))
        if compared.seeds[table] >= rank_seeds:
            compared.sign[table], compared.p[table] = compare_ranks(ours, theirs)
    return compared


def failed_in(row: Array, than: Array) -> NDArray[np.bool_]:
    """Return a mask (B,) of the tables in which a run of one of two rows failed."""
    return np.any(np.isneginf(row) | np.isneginf(than), axis=1)


def advantage(row: Array, than: Array) -> Array:
    """Return the differences (B, S) of two rows; NaN in tables in which a run of them failed."""
    known = np.broadcast_to(~failed_in(row, than)[:, None], row.shape)
    return np.subtract(row, than, out=np.full(row.shape, np.nan), where=known)


def holm(p_values: Array) -> Array:
    """Correct p-values for multiple comparisons along the last axis (Holm 1979)."""
    order = np.argsort(p_values, axis=-1)
    ranked = np.take_along_axis(p_values, order, -1) * np.arange(p_values.shape[-1], 0, -1)
    corrected = np.empty_like(p_values)
    np.put_along_axis(corrected, order, np.minimum(np.maximum.accumulate(ranked, -1), 1), -1)
    return corrected


class Measurements(Protocol):
    """The numbers of one table, or of many simulated ones of the same shape."""

    def values(self, row: str, metric: str, log: bool) -> Array:
        """Return the runs (B, S) of a row; with `log`, logarithms."""

    def floor(self, metric: str, log: bool) -> float:
        """Return the least deviation of differences that the metric can resolve."""

    def steps(self, row: str, than: str, metric: str) -> tuple[Array, Array]:
        """Return minus the steps (B, S) after which `row` and `than` are as good as every run of `than` at its end."""

    def step_floor(self, metric: str) -> float:
        """Return the least deviation of differences between steps."""


@dataclass(frozen=True)
class ClaimTest:
    """The test of a claim in B tables."""

    pairs: list[PairTest]  # by pair of rows; of a growth, by step
    p: Array  # (B,) two-sided: corrected for all claims by `judge`
    sign: Array  # 1: the p-value speaks for the claim, -1: against it

    @property
    def decision(self) -> Array:
        """The verdict by table: 1 supported, -1 refuted, 0 open."""
        return np.where(self.p < LEVEL, self.sign, 0)

    @property
    def decisive(self) -> NDArray[np.intp]:
        """The number of the pair that decides: the clearest against the claim, or else the least in its favour."""
        return np.argmax([np.where(pair.sign < 0, 2 - pair.p, pair.p) for pair in self.pairs], axis=0)


def judge(claims: Sequence[Claim], numbers: Measurements) -> list[ClaimTest]:
    """Test claims on pairs of rows, and correct their p-values for all of them."""
    tests = [assess(claim, numbers, seeds_for_ranks(claims)) for claim in claims]
    if not tests:
        return []
    corrected = holm(np.stack([test.p for test in tests], axis=1))
    return [ClaimTest(test.pairs, p, test.sign) for test, p in zip(tests, corrected.T, strict=True)]


def seeds_for_ranks(claims: Sequence[Claim]) -> int:
    """Return the runs of each row from which ranks decide: five; six where Holm's correction leaves five no chance."""
    return 5 if 2 / math.comb(10, 5) * len(claims) < LEVEL else 6


def assess(claim: Claim, numbers: Measurements, rank_seeds: int) -> ClaimTest:
    """Test a claim by itself: every pair has to hold, and one opposite pair refutes it (Bonferroni)."""
    pairs = compare_pairs(claim, numbers, rank_seeds)
    supported = np.max([np.where(pair.sign > 0, pair.p, 1) for pair in pairs], axis=0)
    refuted = len(pairs) * np.min([np.where(pair.sign < 0, pair.p, 1) for pair in pairs], axis=0)
    return ClaimTest(pairs, np.minimum(np.minimum(supported, refuted), 1), np.where(supported < refuted, 1, -1))


def compare_pairs(claim: Claim, numbers: Measurements, rank_seeds: int) -> list[PairTest]:
    """Compare the rows of each pair of a claim; of a growth, each gain with the one before."""
    metric = claim.metric
    if claim.kind == "sooner":
        floor = numbers.step_floor(metric)
        return [compare_rows(*numbers.steps(*names, metric), floor, rank_seeds) for names in claim.pairs]
    log = on_log_scale(metric) or claim.kind == "at_most"
    floor = numbers.floor(metric, log)
    pairs = [[numbers.values(name, metric, log) for name in names] for names in claim.pairs]
    if claim.kind == "growing":
        gains = [advantage(*pair) for pair in pairs]
        return [compare_paired(later - earlier, floor) for earlier, later in itertools.pairwise(gains)]
    return [compare_rows(row + math.log1p(claim.share), than, floor, rank_seeds) for row, than in pairs]


def prediction_interval(values: Sequence[float], floor: float) -> tuple[float, float]:
    """Return the 95 % prediction interval of one more run."""
    count, mean = len(values), statistics.fmean(values)
    deviation = max(statistics.stdev(values), floor)
    half = float(special.stdtrit(count - 1, 1 - LEVEL / 2)) * deviation * math.sqrt(1 + 1 / count)
    return mean - half, mean + half


def paper_word(paper: float, rounding: float, low: float, high: float) -> str:
    """Return the word for a paper's number, which is rounded, and the prediction interval of ours."""
    if not low - rounding <= paper <= high + rounding:
        return "outside"
    return "too wide" if (high - low) / 2 > WIDEST * abs(paper) else "within"
