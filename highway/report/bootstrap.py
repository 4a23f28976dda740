"""Two trained models on the sentences of a test set, from the n-gram counts that records keep.

Verdicts compare seeds; this compares two models, whatever other seeds would give.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from highway.report.collect import Collected, Sample
from highway.report.model import Array, holm
from highway.sweep.table import Row

DRAWS = 10_000
CHUNK = 500  # draws at a time, to bound the memory


@dataclass(frozen=True)
class Compared:
    """A row compared with its baseline at a seed."""

    row: Row
    base: Row
    seed: int
    bleu: float
    difference: float
    low: float  # ends of the 95 % interval of the difference over resampled sentences
    high: float
    p: float  # of approximate randomisation, after Holm's correction for all pairs of the report


def compare(collected: Collected) -> list[Compared]:
    """Compare each row with its baseline at each seed that both have."""
    if collected.budget == "smoke":
        return []
    pairs: list[tuple[Row, Row, int, Array, Array]] = []
    for row in collected.table.rows:
        base = collected.table.base(row.id)
        baselines = {sample.seed: sample for sample in collected.finished(base)} if base else {}
        for sample in collected.finished(row.id):
            other = baselines.get(sample.seed)
            if base and other and _counts(sample) and _lengths(sample) == _lengths(other):
                ours, theirs = (parse(_counts(each)) for each in (sample, other))
                pairs.append((row, collected.table.row(base), sample.seed, ours, theirs))
    p_values = holm(np.array([randomisation(ours, theirs) for *_, ours, theirs in pairs])) if pairs else np.ones(0)
    return [
        Compared(
            row, base, seed, float(bleu(ours.sum(0))), float(bleu(ours.sum(0)) - bleu(theirs.sum(0))),
            *interval(resampled(ours, theirs)), float(p),
        )
        for (row, base, seed, ours, theirs), p in zip(pairs, p_values, strict=True)
    ]  # fmt: skip


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


def resampled(ours: Array, theirs: Array, draws: int = DRAWS, seed: int = 0) -> Array:
    """Return the difference of BLEU in each draw of as many sentences, with replacement."""
    rng, size = np.random.default_rng(seed), len(ours)
    both = np.concatenate([ours, theirs], axis=1)
    parts = []
    for _ in range(0, draws, CHUNK):
        drawn = rng.integers(size, size=(CHUNK, size)) + size * np.arange(CHUNK)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=CHUNK * size).reshape(CHUNK, size)
        sums = weights.astype(float) @ both
        parts.append(bleu(sums[:, :10]) - bleu(sums[:, 10:]))
    return np.concatenate(parts)[:draws]


def interval(differences: Array) -> tuple[float, float]:
    """Return the 95 % interval of resampled differences."""
    low, high = np.quantile(differences, (0.025, 0.975))
    return float(low), float(high)


def randomisation(ours: Array, theirs: Array, draws: int = DRAWS, seed: int = 0) -> float:
    """Return the p-value of no difference: the share of random exchanges of sentences that differ as much."""
    rng = np.random.default_rng(seed)
    sums, change = (ours + theirs).sum(0) / 2, (ours - theirs) / 2
    difference = abs(bleu(ours.sum(0)) - bleu(theirs.sum(0)))
    extreme = []
    for _ in range(0, draws, CHUNK):
        exchanged = rng.integers(2, size=(CHUNK, len(ours))) * 2.0 - 1
        shift = exchanged @ change
        extreme.append(np.abs(bleu(sums + shift) - bleu(sums - shift)) >= difference - 1e-12)
    return _share(np.concatenate(extreme)[:draws])


def _share(extreme: NDArray[np.bool_]) -> float:
    """Return the share of draws that are as extreme; what was observed counts as one more draw, so it is never 0."""
    return float((extreme.sum() + 1) / (len(extreme) + 1))
