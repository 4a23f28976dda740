"""Everything that a report infers: tests of claims, intervals, the paper's number. docs/STATISTICS.md has the rules.

Shapes: B tables (one in a report, thousands in scripts/simulate.py), S runs of a row by seed number, C claims. The runs
of a row are (B, S) on a scale on which higher is better. -inf: the run failed. NaN, after the runs: there is none.
"""

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from highway.cards.metrics import METRICS
from highway.tables.table import Claim, Epochs

Array = NDArray[np.float64]
LEVEL = 0.05
LOOKS = (3, 5)  # claims are tested on so many runs of each row, the first by seed number
WIDEST = 0.05  # half of a prediction interval, as a share of the paper's number
CLOSE = 0.01  # a paper's number this near to our mean is within, however narrow the interval is


def on_log_scale(metric: str) -> bool:
    """Return whether the spread of a metric grows with its mean, so that ratios are compared."""
    card = METRICS[metric]
    return card.kind == "ppl" or card.unit in ("seconds", "hours", "tokens a second", "MiB")


def compares_ratios(claim: Claim) -> bool:
    """Return whether a claim is tested on logarithms."""
    return on_log_scale(claim.metric) or claim.kind == "at_most"


class Measurements(Protocol):
    """The numbers of one table, or of many simulated ones of the same shape."""

    def values(self, row: str, metric: str, log: bool, over: Epochs | None = None) -> Array:
        """Return the runs (B, S) of a row; with `log`, logarithms. `over`: the mean of the curve over these epochs."""

    def floor(self, metric: str, log: bool) -> float:
        """Return the least standard deviation that the metric can resolve."""

    def twin(self, row: str) -> str:
        """Return the first row of the table that has the same runs, which may be the row itself."""

    def comparable(self, *rows: str) -> bool:
        """Return whether these rows have the same data."""


class Comparison(NamedTuple):
    """Welch's test of a difference between rows in B tables; fields are (B,)."""

    size: Array  # of the means' difference; NaN if a run failed
    half: Array  # half the length of its 95 % interval; NaN where a row has one run
    reach: Array  # the same of the difference of one more run of each row
    p: Array  # two-sided; 1 where nothing can be tested


def compare(rows: Sequence[tuple[float, Array]], floor: float, shift: float = 0.0) -> Comparison:
    """Test that a weighted sum of means, plus `shift`, is zero. Rows are given by weight and runs (B, S).

    Each row has its own deviation, of at least `floor`; the degrees of freedom are Satterthwaite's.
    """
    size, of_means, of_runs = np.array(shift), [], []  # variances, each with its degrees of freedom
    with np.errstate(divide="ignore", invalid="ignore"):
        for weight, runs in rows:
            known = np.where(np.isneginf(runs).any(1, keepdims=True), np.nan, runs)
            count = (~np.isnan(known)).sum(1)
            mean = np.nansum(known, axis=1) / count
            variance = np.nansum((known - mean[:, None]) ** 2, axis=1) / (count - 1)
            scaled = weight**2 * np.maximum(variance, floor**2)
            size = size + weight * mean
            of_means.append((scaled / count, count - 1))
            of_runs.append((scaled * (1 + 1 / count), count - 1))
        freedom, deviation = _of_sum(of_means)
        p = 2 * special.stdtr(freedom, -np.abs(size) / deviation)
    return Comparison(size, _half(of_means), _half(of_runs), np.where(np.isnan(p), 1.0, p))


def _half(variances: Sequence[tuple[Array, Array]]) -> Array:
    """Return half the length of the 95 % interval of a sum of independent estimates."""
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom, deviation = _of_sum(variances)
        return np.asarray(special.stdtrit(freedom, 1 - LEVEL / 2) * deviation)


def _of_sum(variances: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return Satterthwaite's degrees of freedom and the deviation of a sum of independent estimates."""
    squared = np.sum([variance for variance, _ in variances], axis=0)
    bound = np.sum([variance**2 / freedom for variance, freedom in variances], axis=0)
    return squared**2 / bound, np.sqrt(squared)


def comparisons(claim: Claim, numbers: Measurements, runs: int | None = None) -> list[Comparison]:
    """Compare the rows of each pair of a claim; of a growth, each gain with the one before. `runs`: the first ones."""
    log = compares_ratios(claim)
    pairs = [[(1.0, row), (-1.0, than)] for row, than in claim.pairs]
    if claim.kind == "growing":
        pairs = [[*later, *((-weight, row) for weight, row in gain)] for gain, later in itertools.pairwise(pairs)]
    floor, shift = numbers.floor(claim.metric, log), math.log1p(claim.share)
    found = []
    for pair in pairs:
        weights: dict[str, float] = {}  # rows that are the same runs are one row: of such a pair nothing is left
        for weight, row in pair:
            weights[numbers.twin(row)] = weights.get(numbers.twin(row), 0.0) + weight
        rows = [
            (weight, numbers.values(row, claim.metric, log, claim.over)[:, :runs]) for row, weight in weights.items()
        ]
        found.append(compare(rows, floor, shift))
    return found


def judge(claims: Sequence[Claim], numbers: Measurements) -> Array:
    """Return the p-value for each claim and the one against it (C, 2, B), corrected for all of them."""
    return holm(np.stack([assess(claim, numbers) for claim in claims]))


def decisions(p_values: Array) -> NDArray[np.intp]:
    """Return the verdicts (C, B) of corrected p-values (C, 2, B): 1 for the claim, -1 against it, 0 undecided."""
    passed = (p_values < LEVEL).astype(int)
    return passed[:, 0] - passed[:, 1]


def assess(claim: Claim, numbers: Measurements) -> Array:
    """Return the p-values for a claim and against it (2, B) over both looks.

    A look takes the first runs of each row. It decides nothing if a row has fewer, if one of them failed, or if rows
    differ in their data. Every pair of the claim has to hold, and one opposite pair refutes it (Bonferroni).
    """
    names, log = dict.fromkeys((*claim.rows, *claim.than)), compares_ratios(claim)
    rows = [numbers.values(row, claim.metric, log, claim.over) for row in names]
    looks = [np.ones((2, len(rows[0])))]
    for look in LOOKS if numbers.comparable(*names) else ():
        held = np.all([np.isfinite(runs[:, :look]).sum(1) == look for runs in rows], axis=0)
        pairs = comparisons(claim, numbers, look)
        ahead = np.max([np.where(pair.size > 0, pair.p, 1) for pair in pairs], axis=0)
        behind = len(pairs) * np.min([np.where(pair.size < 0, pair.p, 1) for pair in pairs], axis=0)
        looks.append(np.where(held, [ahead, behind], 1))
    return np.minimum(len(LOOKS) * np.min(looks, axis=0), 1)


def holm(p_values: Array) -> Array:
    """Correct p-values (C, 2, B) over the claims, which are ranked by the smaller of their two (Holm 1979)."""
    count = len(p_values)
    order = np.argsort(p_values.min(1, keepdims=True), axis=0)
    ranked = np.take_along_axis(p_values, order, 0) * np.arange(count, 0, -1)[:, None, None]
    least = np.maximum.accumulate(ranked.min(1, keepdims=True), axis=0)
    corrected = np.empty_like(p_values)
    np.put_along_axis(corrected, order, np.minimum(np.maximum(ranked, least), 1), 0)
    return corrected


def prediction_interval(values: Sequence[float], floor: float) -> tuple[float, float]:
    """Return the 95 % prediction interval of one more run."""
    count, mean = len(values), statistics.fmean(values)
    deviation = max(statistics.stdev(values), floor)
    half = float(special.stdtrit(count - 1, 1 - LEVEL / 2)) * deviation * math.sqrt(1 + 1 / count)
    return mean - half, mean + half


def paper_word(paper: float, rounding: float, interval: tuple[float, float], near: tuple[float, float]) -> str:
    """Return the word for a paper's number, which is rounded. near: what is close enough to our mean."""
    low, high = interval
    if (high - low) / 2 > WIDEST * abs(paper):
        return "too wide"
    within = any(least - rounding <= paper <= most + rounding for least, most in (interval, near))
    return "within" if within else "outside"


def effect_word(ours: Comparison, paper: float, rounding: float) -> str:
    """Return the word for our effect, of one table, beside the paper's, which is rounded and of one run a row."""
    size, half, reach = (float(value[0]) for value in (ours.size, ours.half, ours.reach))
    with_zero = abs(size) <= half
    if abs(size - paper) <= reach + rounding:
        return "too wide" if with_zero or reach >= abs(paper) else "agrees"
    if size * paper < 0 and not with_zero:
        return "opposite"
    return "smaller" if with_zero or abs(size) < abs(paper) else "larger"
