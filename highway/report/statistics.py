"""Means over seeds, differences between rows paired by seed, and what they say of a claim."""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from highway.report.collect import Collected, Sample
from highway.sweep.table import Claim

# Two-sided 95 % quantiles of Student's t with 1, 2, ... degrees of freedom.
STUDENT_95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
)  # fmt: skip
ENOUGH_SEEDS = 3


@dataclass(frozen=True)
class Summary:
    mean: float
    deviation: float | None  # over seeds (n - 1); None for one seed
    count: int


def summarise(values: Sequence[float]) -> Summary | None:
    if not values:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Summary(statistics.fmean(values), deviation, len(values))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % confidence interval of the mean."""
    quantile = STUDENT_95[min(len(values) - 1, len(STUDENT_95)) - 1]
    half = quantile * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.fmean(values) - half, statistics.fmean(values) + half


@dataclass(frozen=True)
class Verdict:
    claim: Claim
    word: str  # supported, refuted, ... or why there is none
    detail: str = ""


def judge(claim: Claim, collected: Collected) -> Verdict:
    """`supported` and `refuted` need the paper budget, full data and three paired seeds."""
    by_seed = _pairs(claim, collected)
    if not by_seed:
        return Verdict(claim, "not run")
    if len({_data_identity(sample) for pairs in by_seed for pair in pairs for sample in pair}) > 1:
        return Verdict(claim, "not comparable", "the rows differ in their data or vocabulary")
    differences = [min(_advantage(claim, row, than, collected) for row, than in pairs) for pairs in by_seed]
    unit = " steps" if claim.kind == "sooner" else ""
    shown = ", ".join("never reached" if math.isinf(value) else f"{value:+.4g}{unit}" for value in differences)
    least = "least advantage" if len(by_seed[0]) > 1 else "advantage"
    detail = f"{claim.metric}, {least} by seed: {shown}"
    if collected.budget != "paper" or not collected.full_data:
        where = collected.budget + ("" if collected.full_data else f", {collected.data_source} data")
        return Verdict(claim, f"{'same' if sum(differences) > 0 else 'other'} ordering ({where})", detail)
    return Verdict(claim, _word(differences), detail)


def _word(differences: Sequence[float]) -> str:
    agree = sum(value > 0 for value in differences)
    if len(differences) == 1:
        return "one seed agrees" if agree else "one seed disagrees"
    if len(differences) < ENOUGH_SEEDS or any(math.isinf(value) for value in differences):
        return f"{agree} of {len(differences)} seeds agree"
    low, high = interval(differences)
    if low > 0:
        return "supported"
    return "refuted" if high < 0 else "undecided"


def _pairs(claim: Claim, collected: Collected) -> list[list[tuple[Sample, Sample]]]:
    """For every seed that all rows of the claim have: each row with each that it is compared with."""
    found = {
        name: {one.seed: one for one in collected.finished(name) if one.tells(claim.metric)}
        for name in (*claim.rows, *claim.than)
    }
    seeds = sorted(set.intersection(*(set(samples) for samples in found.values())))
    return [
        [(found[row][seed], found[than][seed]) for row, than in itertools.product(claim.rows, claim.than)]
        for seed in seeds
    ]


def _data_identity(sample: Sample) -> tuple[str, str]:
    data = sample.result["data"]
    return data["vocabulary_sha256"], str(sorted(data["sha256"].items()))


def _advantage(claim: Claim, row: Sample, than: Sample, collected: Collected) -> float:
    """How far the claim holds for one seed: positive when it does."""
    if claim.kind == "sooner":
        return _sooner(claim, row, than)
    select = collected.table.select
    better = next(column.better for column in collected.table.columns if column.metric == claim.metric)
    difference = row.value(claim.metric, select) - (1 + claim.share) * than.value(claim.metric, select)
    return -difference if better == "lower" else difference


def _sooner(claim: Claim, row: Sample, than: Sample) -> float:
    """Steps saved until `row` first has the value that `than` ends with; minus infinity if it never has."""
    split, metric = claim.metric.split("_", 1)
    reference = than.curves[split, metric]
    final = reference[-1][2]
    reached = first_reached(row.curves[split, metric], final)
    return -math.inf if reached is None else (first_reached(reference, final) or 0) - reached


def first_reached(curve: Sequence[tuple[float, float, float]], value: float) -> float | None:
    """The first step at which a curve of (step, epoch, value) is as low as `value`."""
    return next((step for step, _, reached in curve if reached <= value), None)


def kendall_tau(ours: Sequence[float], papers: Sequence[float]) -> float | None:
    """Kendall's tau-b: how far two orders of the same rows agree, 1 wholly, -1 reversed; ties count for neither."""
    pairs = list(itertools.combinations(range(len(ours)), 2))
    signs = [(_sign(ours[i] - ours[j]), _sign(papers[i] - papers[j])) for i, j in pairs]
    untied = math.prod(sum(bool(sign[side]) for sign in signs) for side in (0, 1))
    return sum(mine * theirs for mine, theirs in signs) / math.sqrt(untied) if untied else None


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
