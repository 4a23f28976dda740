"""Rows beside their baselines: the difference over shared seeds; with one shared seed, that of the two models alone."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from highway.config.metrics import METRICS
from highway.errors import counted
from highway.report.collect import Collected
from highway.report.evidence import Evidence, p_text
from highway.report.sample import Sample
from highway.report.statistics import (
    Array,
    Statistic,
    bleu,
    bootstrap,
    compare_rows,
    failed_in,
    mean_loss,
    on_log_scale,
    parse,
)
from highway.sweep.table import Row

STATISTICS: dict[str, Statistic] = {"bleu": bleu, "test_loss": mean_loss}  # by metric of the units
UNITS: dict[str, tuple[str, Callable[[float], float]]] = {  # metric -> that of its units, and a difference in it
    "bleu": ("bleu", float),
    "test_loss": ("test_loss", float),
    "test_bpc": ("test_loss", lambda nats: nats / math.log(2)),
    "test_ppl": ("test_loss", math.expm1),
}
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
    on_test_set: bool = False  # with one seed: the interval is over draws of the units of the test set
    failed: bool = False  # whether a run of one of the rows failed
    p: float | None = None  # of the ranks of all runs, if some failed and there are enough

    def __str__(self) -> str:
        if self.p is not None:
            return f"by ranks, p {p_text(self.p)}"
        if not self.has_size:
            return DASH if self.failed else ""
        unit = " %" if on_log_scale(self.metric) else ""
        interval = "one seed" if math.isnan(self.low) else f"{self._text(self.low)} … {self._text(self.high)}"
        return f"{self._text(self.size)}{unit} ({interval}){'*' if self.on_test_set else ''}"

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
    if units := on_test_set(evidence.collected, row, base):
        return made(1, *units, on_test_set=True, failed=failed)
    if failed:
        return made(0, failed=True)
    sign = -1.0 if METRICS[metric].better == "lower" else 1.0
    mean, half, seeds = sign * float(compared.mean[0]), float(compared.half[0]), int(compared.seeds[0])
    ends = [mean, mean - half, mean + half]
    size, low, high = map(math.expm1, ends) if log else ends
    return made(seeds, size, low, high)


def on_test_set(collected: Collected, row: Row, base: Row) -> tuple[float, float, float] | None:
    """Return the difference of two runs with the ends of its 95 % interval over draws of units of the test set.

    None unless the rows share exactly one seed, both runs keep these units, and they are of the metric of the claims.
    """
    if collected.table.headline not in UNITS:
        return None
    of_units, in_metric = UNITS[collected.table.headline]
    ours, theirs = ({sample.seed: sample for sample in collected.learned(name)} for name in (row.id, base.id))
    shared = [*(ours.keys() & theirs.keys())]
    units = units_of(ours[shared[0]], theirs[shared[0]], collected.table.select) if len(shared) == 1 else None
    if units is None or units[0] != of_units:
        return None
    metric, first, second = units
    statistic, columns = STATISTICS[metric], first.shape[1]

    def gap(counts: Array) -> Array:
        return statistic(counts[..., :columns]) - statistic(counts[..., columns:])

    both = np.concatenate([first, second], axis=1)
    size, low, high = map(in_metric, (float(gap(both.sum(0))), *bootstrap(both, gap)))
    return size, low, high


def units_of(ours: Sample, theirs: Sample, select: str) -> tuple[str, Array, Array] | None:
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
