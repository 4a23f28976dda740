"""Two trained models on the units of a test set: sentences with n-gram counts, or units with their losses.

Verdicts compare seeds; this compares two models, whatever other seeds would give. Translations are compared by BLEU;
all others by the test loss, if both records keep the losses of their units (highway/tasks/units.py).
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from highway.report.collect import Collected
from highway.report.model import LEVEL, Array
from highway.report.sample import Sample
from highway.report.verdicts import NOISE
from highway.sweep.table import Row

DIFFER = "these two models differ"
Statistic = Callable[[Array], Array]  # of summed counts (..., columns)
DRAWS = 10_000
CHUNK = 500  # draws at a time, to bound the memory


class Pair(NamedTuple):
    """A run of a row and one of its baseline: their seeds, and the counts of each unit of the test set."""

    seed: int
    base_seed: int
    metric: str  # bleu | test_loss
    ours: Array
    theirs: Array


@dataclass(frozen=True)
class Compared:
    """A run of a row compared with one of its baseline."""

    row: Row
    base: Row
    seed: int
    base_seed: int
    metric: str
    value: float
    difference: float
    low: float  # ends of the interval over resampled units, that covers all differences of the report with 95 %
    high: float
    p: float  # of approximate randomisation, corrected for all pairs of the report in the same way (Bonferroni)
    of_means: float | None = None  # difference of the means of all seeds; None if neither row has several

    @property
    def word(self) -> str:
        """The verdict that one seed of each row allows."""
        if self.p >= LEVEL:
            return NOISE
        opposed = self.of_means is not None and self.of_means * self.difference < 0
        return f"{DIFFER}, the means of all seeds the other way" if opposed else DIFFER


def compare(collected: Collected) -> list[Compared]:
    """Compare each row with its baseline at each seed of which both have the units.

    If they share no such seed, compare the first run of each that has the units.
    """
    if collected.budget == "smoke":
        return []
    pairs: list[tuple[Row, Row, Pair]] = []
    for row in collected.table.rows:
        base = collected.table.base(row.id)
        if base and collected.comparable(row.id, base) and collected.samples[row.id] != collected.samples[base]:
            runs = [(ours, theirs) for ours in collected.finished(row.id) for theirs in collected.finished(base)]
            found = _with_units(runs, collected.table.select)
            pairs += [(row, collected.table.row(base), pair) for pair in found]
    return [_compared(collected, row, base, pair, *_ends(pair, len(pairs))) for row, base, pair in pairs]


def _of_means(collected: Collected, row: Row, base: Row, metric: str) -> float | None:
    ours, theirs = (collected.summary(each.id, metric) for each in (row, base))
    return ours.mean - theirs.mean if ours and theirs and max(ours.count, theirs.count) > 1 else None


def _with_units(runs: Sequence[tuple[Sample, Sample]], select: str) -> list[Pair]:
    """Return the runs of one seed that have units, or else the first two of any seeds."""

    def kept(pairs: Iterable[tuple[Sample, Sample]]) -> Iterator[Pair]:
        for ours, theirs in pairs:
            if units := _units(ours, theirs, select):
                yield Pair(ours.seed, theirs.seed, *units)

    alike = list(kept((ours, theirs) for ours, theirs in runs if ours.seed == theirs.seed))
    return alike or list(itertools.islice(kept(runs), 1))


def _compared(collected: Collected, row: Row, base: Row, pair: Pair, low: float, high: float, p: float) -> Compared:
    seed, base_seed, metric, ours, theirs = pair
    score, of_means = STATISTICS[metric], _of_means(collected, row, base, metric)
    value, difference = float(score(ours.sum(0))), float(score(ours.sum(0)) - score(theirs.sum(0)))
    return Compared(row, base, seed, base_seed, metric, value, difference, low, high, p, of_means)


def _ends(pair: Pair, count: int) -> tuple[float, float, float]:
    """Return the ends of the interval and the p-value of one of `count` pairs."""
    score = STATISTICS[pair.metric]
    low, high = interval(resampled(pair.ours, pair.theirs, score), count)
    return low, high, min(count * randomisation(pair.ours, pair.theirs, score), 1.0)


def _units(ours: Sample, theirs: Sample, select: str) -> tuple[str, Array, Array] | None:
    """Return the metric and the counts of the units of two runs; None unless both keep those of the same test set."""
    if bleu_counts(ours) and _lengths(ours) == _lengths(theirs):
        return "bleu", parse(bleu_counts(ours)), parse(bleu_counts(theirs))
    losses = [sample.probe(f"test_units_{select}") for sample in (ours, theirs)]
    same = ours.result["data"]["sha256"].get("test") == theirs.result["data"]["sha256"].get("test")
    if not (same and all(losses)) or len(losses[0]["nats"]) != len(losses[1]["nats"]):
        return None
    first, second = (np.stack([loss["nats"], loss["scored"]], axis=1).astype(float) for loss in losses)
    return "test_loss", first, second


def bleu_counts(sample: Sample) -> list[str]:
    """Return the counts of each sentence of the test set; empty for a record without translations."""
    return sample.result.get("notes", {}).get("bleu_counts", [])


def _lengths(sample: Sample) -> list[str]:
    """Return the lengths of the references, which show the order of the sentences: releases of TED differ in it."""
    return [line.split()[1] for line in bleu_counts(sample)]


def parse(lines: Sequence[str]) -> Array:
    """Return counts (sentences, 10): lengths of output and reference, n-grams that match, n-grams of the output."""
    return np.array([[float(count) for count in line.split()] for line in lines])


def bleu(counts: Array) -> Array:
    """Return corpus BLEU of summed counts (..., 10), smoothed as sacreBLEU does by default."""
    output, reference, matches, totals = counts[..., 0], counts[..., 1], counts[..., 2:6], counts[..., 6:10]
    missing = np.cumsum(matches == 0, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precisions = np.where(matches > 0, matches / totals, 1 / (2.0**missing * totals))
        brevity = np.where(output < reference, np.exp(1 - reference / output), 1.0)
        score = 100 * brevity * np.exp(np.log(precisions).mean(-1))
    return np.where((totals > 0).all(-1) & (matches.sum(-1) > 0), score, 0.0)


def mean_loss(counts: Array) -> Array:
    """Return the mean loss of summed counts (..., 2): nats and scored positions."""
    return counts[..., 0] / counts[..., 1]


STATISTICS: dict[str, Statistic] = {"bleu": bleu, "test_loss": mean_loss}  # by metric


def resampled(ours: Array, theirs: Array, score: Statistic = bleu, draws: int = DRAWS, seed: int = 0) -> Array:
    """Return the difference of a metric in each draw of as many units, with replacement."""
    columns = ours.shape[1]
    sums = drawn(np.concatenate([ours, theirs], axis=1), draws, seed)
    return np.concatenate([score(each[:, :columns]) - score(each[:, columns:]) for each in sums])[:draws]


def spread(counts: Array, score: Statistic = bleu, draws: int = 1000) -> tuple[float, float]:
    """Return the 95 % interval of one model's metric over resampled units."""
    return interval(np.concatenate([score(sums) for sums in drawn(counts, draws, 0)]))


def drawn(counts: Array, draws: int, seed: int) -> Iterator[Array]:
    """Yield the summed counts of each draw of as many units, with replacement, some draws at a time."""
    rng, size = np.random.default_rng(seed), len(counts)
    for _ in range(0, draws, CHUNK):
        chosen = rng.integers(size, size=(CHUNK, size)) + size * np.arange(CHUNK)[:, None]
        yield np.bincount(chosen.ravel(), minlength=CHUNK * size).reshape(CHUNK, size) @ counts


def interval(differences: Array, count: int = 1) -> tuple[float, float]:
    """Return the interval of resampled differences that is one of `count` which all hold with 95 % (Bonferroni)."""
    tail = LEVEL / 2 / count
    low, high = np.quantile(differences, (tail, 1 - tail))
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
