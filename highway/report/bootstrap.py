"""Two trained models on the units of a test set: sentences with n-gram counts, or units with their losses.

Verdicts compare seeds; this compares two models, whatever other seeds would give. Translations are compared by BLEU;
all others by the test loss, if both records keep the losses of their units (highway/tasks/units.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from highway.report.collect import Collected, Sample
from highway.report.model import LEVEL, Array, holm
from highway.report.verdicts import NOISE
from highway.sweep.table import Row

DIFFER = "these two models differ"
Statistic = Callable[[Array], Array]  # of summed counts (..., columns)
DRAWS = 10_000
CHUNK = 500  # draws at a time, to bound the memory


@dataclass(frozen=True)
class Compared:
    """A row compared with its baseline at a seed."""

    row: Row
    base: Row
    seed: int
    metric: str  # bleu | test_loss
    value: float
    difference: float
    low: float  # ends of the 95 % interval of the difference over resampled units
    high: float
    p: float  # of approximate randomisation, after Holm's correction for all pairs of the report

    @property
    def word(self) -> str:
        """The verdict that one seed of each row allows."""
        return DIFFER if self.p < LEVEL else NOISE


def compare(collected: Collected) -> list[Compared]:
    """Compare each row with its baseline at each seed that both have."""
    if collected.budget == "smoke":
        return []
    pairs: list[tuple[Row, Row, int, str, Array, Array]] = []
    for row in collected.table.rows:
        base = collected.table.base(row.id)
        baselines = {sample.seed: sample for sample in collected.finished(base)} if base else {}
        for sample in collected.finished(row.id):
            other = baselines.get(sample.seed)
            if base and other and (units := _units(sample, other, collected.table.select)):
                pairs.append((row, collected.table.row(base), sample.seed, *units))
    tests = [randomisation(ours, theirs, STATISTICS[metric]) for *_, metric, ours, theirs in pairs]
    corrected = holm(np.array(tests)) if tests else np.ones(0)
    return [_compared(*pair, float(p)) for pair, p in zip(pairs, corrected, strict=True)]


def _compared(row: Row, base: Row, seed: int, metric: str, ours: Array, theirs: Array, p: float) -> Compared:
    score = STATISTICS[metric]
    value, difference = float(score(ours.sum(0))), float(score(ours.sum(0)) - score(theirs.sum(0)))
    low, high = interval(resampled(ours, theirs, score))
    return Compared(row, base, seed, metric, value, difference, low, high, p)


def _units(ours: Sample, theirs: Sample, select: str) -> tuple[str, Array, Array] | None:
    """Return the metric and the counts of the units of two runs; None unless both keep those of the same test set."""
    if _counts(ours) and _lengths(ours) == _lengths(theirs):
        return "bleu", parse(_counts(ours)), parse(_counts(theirs))
    losses = [sample.probe(f"test_units_{select}") for sample in (ours, theirs)]
    same = ours.result["data"]["sha256"].get("test") == theirs.result["data"]["sha256"].get("test")
    if not (same and all(losses)) or len(losses[0]["nats"]) != len(losses[1]["nats"]):
        return None
    first, second = (np.stack([loss["nats"], loss["scored"]], axis=1).astype(float) for loss in losses)
    return "test_loss", first, second


def _counts(sample: Sample) -> list[str]:
    return sample.result.get("notes", {}).get("bleu_counts", [])


def _lengths(sample: Sample) -> list[str]:
    """Return the lengths of the references, which show the order of the sentences: releases of TED differ in it."""
    return [line.split()[1] for line in _counts(sample)]


def parse(lines: Sequence[str]) -> Array:
    """Return counts (sentences, 10): lengths of output and reference, n-grams that match, n-grams of the output."""
    return np.array([[float(count) for count in line.split()] for line in lines])


def bleu(counts: Array) -> Array:
    """Return corpus BLEU of summed counts (..., 10), smoothed as sacreBLEU does by default."""
    output, reference, matches, totals = counts[..., 0], counts[..., 1], counts[..., 2:6], counts[..., 6:10]
    missing = np.cumsum((matches == 0) & (totals > 0), axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precisions = np.where(matches > 0, matches / totals, 1 / (2.0**missing * totals))
        brevity = np.where(output < reference, np.exp(1 - reference / output), 1.0)
        score = 100 * brevity * np.exp(np.log(precisions).mean(-1))
    return np.where((totals > 0).all(-1) & (output > 0) & (matches.sum(-1) > 0), score, 0.0)


def mean_loss(counts: Array) -> Array:
    """Return the mean loss of summed counts (..., 2): nats and scored positions."""
    return counts[..., 0] / counts[..., 1]


STATISTICS: dict[str, Statistic] = {"bleu": bleu, "test_loss": mean_loss}  # by metric


def resampled(ours: Array, theirs: Array, score: Statistic = bleu, draws: int = DRAWS, seed: int = 0) -> Array:
    """Return the difference of a metric in each draw of as many units, with replacement."""
    rng, size, columns = np.random.default_rng(seed), *ours.shape
    both = np.concatenate([ours, theirs], axis=1)
    parts = []
    for _ in range(0, draws, CHUNK):
        drawn = rng.integers(size, size=(CHUNK, size)) + size * np.arange(CHUNK)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=CHUNK * size).reshape(CHUNK, size)
        sums = weights.astype(float) @ both
        parts.append(score(sums[:, :columns]) - score(sums[:, columns:]))
    return np.concatenate(parts)[:draws]


def interval(differences: Array) -> tuple[float, float]:
    """Return the 95 % interval of resampled differences."""
    low, high = np.quantile(differences, (0.025, 0.975))
    return float(low), float(high)


def randomisation(ours: Array, theirs: Array, score: Statistic = bleu, draws: int = DRAWS, seed: int = 0) -> float:
    """Return the p-value of no difference: the share of random exchanges of units that differ as much."""
    rng = np.random.default_rng(seed)
    sums, change = (ours + theirs).sum(0) / 2, (ours - theirs) / 2
    difference = abs(score(ours.sum(0)) - score(theirs.sum(0)))
    extreme = []
    for _ in range(0, draws, CHUNK):
        exchanged = rng.integers(2, size=(CHUNK, len(ours))) * 2.0 - 1
        shift = exchanged @ change
        extreme.append(np.abs(score(sums + shift) - score(sums - shift)) >= difference - 1e-12)
    return _share(np.concatenate(extreme)[:draws])


def _share(extreme: NDArray[np.bool_]) -> float:
    """Return the share of draws that are as extreme; what was observed counts as one more draw, so it is never 0."""
    return float((extreme.sum() + 1) / (len(extreme) + 1))
