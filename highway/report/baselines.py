"""Rows beside their baselines: the difference over shared seeds; with one shared seed, that of the two models alone."""

import math
from dataclasses import dataclass

import numpy as np

from highway.config.metrics import METRICS
from highway.report.collect import Collected
from highway.report.evidence import Evidence
from highway.report.sample import Sample
from highway.report.sections import seeds_text
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

STATISTICS: dict[str, Statistic] = {"bleu": bleu, "test_loss": mean_loss}  # by metric


@dataclass(frozen=True)
class Difference:
    """The difference of a row from its baseline in the metric of the claims; a share where ratios are compared."""

    row: Row
    base: Row
    runs: str  # the seeds, or the runs that have learned
    size: float | None = None
    low: float = math.nan  # ends of the 95 % interval of the paired t-test
    high: float = math.nan
    p: float | None = None


@dataclass(frozen=True)
class OnTestSet:
    """A run and the one of its baseline with the same seed, on the units of the test set."""

    row: Row
    base: Row
    seed: int
    metric: str  # bleu | test_loss
    value: float
    difference: float
    low: float  # ends of the 95 % interval over draws of as many units
    high: float


def pairs(collected: Collected) -> list[tuple[Row, Row]]:
    """Return the rows that have run, and their baselines, which have run on the same data; not of smoke runs."""
    table, samples = collected.table, collected.samples
    bases = [(row, table.row(base)) for row in table.rows if (base := table.base(row.id))]
    return [
        (row, base)
        for row, base in bases
        if collected.budget != "smoke" and samples[row.id] and samples[base.id] and samples[row.id] != samples[base.id]
        if collected.comparable(row.id, base.id)
    ]


def differences(collected: Collected) -> list[Difference]:
    """Compare each row with its baseline, by the seeds that both have or by the ranks of all runs."""
    evidence, metric = Evidence(collected), collected.table.headline
    log, found = on_log_scale(metric), []
    sign = -1.0 if METRICS[metric].better == "lower" else 1.0
    for row, base in pairs(collected):
        ours, theirs = (evidence.numbers.values(name, metric, log) for name in (row.id, base.id))
        compared = compare_rows(ours, theirs, evidence.numbers.floor(metric, log), evidence.rank_seeds)
        mean, half, p = (float(part[0]) for part in (compared.mean, compared.half, compared.p))
        if failed_in(ours, theirs)[0] and compared.seeds[0] >= evidence.rank_seeds:
            text = f"{evidence.count({row.id: ours, base.id: theirs})} have learned"
            found.append(Difference(row, base, text, p=p))
        elif not math.isnan(half):
            ends = [sign * mean, sign * mean - half, sign * mean + half]
            size, low, high = map(math.expm1, ends) if log else ends
            seeds = [evidence.numbers.seeds[number] for number in np.flatnonzero(~np.isnan(ours + theirs))]
            found.append(Difference(row, base, seeds_text(seeds), size, low, high, p))
    return found


def on_test_set(collected: Collected) -> list[OnTestSet]:
    """Compare each row with its baseline on the units of the test set, where they share one seed."""
    found = []
    for row, base in pairs(collected):
        ours, theirs = ({sample.seed: sample for sample in collected.learned(name)} for name in (row.id, base.id))
        shared = ours.keys() & theirs.keys()
        if len(shared) == 1:
            (seed,) = shared
            if units := units_of(ours[seed], theirs[seed], collected.table.select):
                found.append(_on_test_set(row, base, seed, *units))
    return found


def _on_test_set(row: Row, base: Row, seed: int, metric: str, ours: Array, theirs: Array) -> OnTestSet:
    statistic, columns = STATISTICS[metric], ours.shape[1]

    def difference(counts: Array) -> Array:
        return statistic(counts[..., :columns]) - statistic(counts[..., columns:])

    both = np.concatenate([ours, theirs], axis=1)
    value, size = float(statistic(ours.sum(0))), float(difference(both.sum(0)))
    return OnTestSet(row, base, seed, metric, value, size, *bootstrap(both, difference))


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
