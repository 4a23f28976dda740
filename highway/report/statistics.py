"""Means over seeds, differences between rows paired by seed, and what they say of a claim."""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from highway.config.metrics import METRICS, Metric
from highway.report.collect import Collected, Sample
from highway.sweep.table import Claim, Table

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
    by_seed = _common_seeds(claim, collected)
    if not by_seed:
        ran = all(collected.finished(name) for name in (*claim.rows, *claim.than))
        why = "no seed counts for all its rows; times do only where nothing else ran"
        return Verdict(claim, "not run", why if ran else "")
    if len({_data_identity(sample) for samples in by_seed for sample in samples.values()}) > 1:
        return Verdict(claim, "not comparable", "the rows differ in their data or vocabulary")
    how = _by_rank if claim.to else _by_growth if claim.kind == "growing" else _by_pairs
    advantages, detail = how(claim, by_seed, collected.table)
    if collected.budget != "paper" or not collected.full_data:
        where = collected.budget + ("" if collected.full_data else f", {collected.data_source} data")
        return Verdict(claim, f"{'same' if sum(advantages) > 0 else 'other'} ordering ({where})", detail)
    return Verdict(claim, _word(advantages), detail)


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


def _common_seeds(claim: Claim, collected: Collected) -> list[dict[str, Sample]]:
    """The samples of all rows of the claim, for every seed that all of them have."""
    found = {
        name: {one.seed: one for one in collected.finished(name) if one.tells(claim.metric) and one.tells(claim.to)}
        for name in (*claim.rows, *claim.than)
    }
    seeds = sorted(set.intersection(*(set(samples) for samples in found.values())))
    return [{name: samples[seed] for name, samples in found.items()} for seed in seeds]


def _data_identity(sample: Sample) -> tuple[str, str]:
    data = sample.result["data"]
    return data.get("vocabulary_sha256", ""), str(sorted(data["sha256"].items()))


def _by_pairs(claim: Claim, by_seed: list[dict[str, Sample]], table: Table) -> tuple[list[float], str]:
    """By seed how far the claim holds, positive when it does: the least advantage over all pairs. The same in words."""
    pairs = list(itertools.product(claim.rows, claim.than))
    advantages = [
        min(_advantage(claim, samples[row], samples[than], table) for row, than in pairs) for samples in by_seed
    ]
    unit = " steps" if claim.kind == "sooner" else ""
    shown = ", ".join("never reached" if math.isinf(value) else f"{value:+.4g}{unit}" for value in advantages)
    return advantages, f"{claim.metric}, {'least ' if len(pairs) > 1 else ''}advantage by seed: {shown}"


def _by_growth(claim: Claim, by_seed: list[dict[str, Sample]], table: Table) -> tuple[list[float], str]:
    """The same for advantages that grow from pair to pair: by seed the least growth."""
    found = [
        [
            _advantage(claim, samples[row], samples[than], table)
            for row, than in zip(claim.rows, claim.than, strict=True)
        ]
        for samples in by_seed
    ]
    shown = "; ".join(", ".join(f"{value:+.4g}" for value in pairs) for pairs in found)
    growth = [min(later - earlier for earlier, later in itertools.pairwise(pairs)) for pairs in found]
    return growth, f"{claim.metric}, advantage from pair to pair, by seed: {shown}"


def _by_rank(claim: Claim, by_seed: list[dict[str, Sample]], table: Table) -> tuple[list[float], str]:
    """The same for a claim about the order of many rows by two metrics."""
    chance = tau_by_chance(len(claim.rows))
    advantages, shown = [], []
    for samples in by_seed:
        orders = [[one.value(metric, table.select) for one in samples.values()] for metric in (claim.metric, claim.to)]
        tau = kendall_tau(*orders)
        if tau is None:
            advantages.append(-math.inf)
        else:
            advantages.append(-tau - chance if claim.kind == "opposed" else chance - abs(tau))
        shown.append("none, all rows are alike" if tau is None else f"{tau:+.2f}")
    of = f"{claim.metric} and {claim.to}, Kendall's tau by seed"
    return advantages, f"{of}: {', '.join(shown)}; by chance within ±{chance:.2f}"


def _advantage(claim: Claim, row: Sample, than: Sample, table: Table) -> float:
    if claim.kind == "sooner":
        return _sooner(claim, row, than)
    difference = row.value(claim.metric, table.select) - (1 + claim.share) * than.value(claim.metric, table.select)
    return -difference if METRICS[claim.metric].better == "lower" else difference


def _sooner(claim: Claim, row: Sample, than: Sample) -> float:
    """Steps saved until `row` first has the value that `than` ends with; minus infinity if it never has."""
    metric = METRICS[claim.metric]
    reference = than.curve(metric)
    final = reference[-1][2]
    reached = first_reached(row.curve(metric), final, metric)
    return -math.inf if reached is None else (first_reached(reference, final, metric) or 0) - reached


def first_reached(curve: Sequence[tuple[float, float, float]], value: float, metric: Metric) -> float | None:
    """The first step at which a curve of (step, epoch, value) is as good as `value`."""
    return next((step for step, _, reached in curve if metric.as_good(reached, value)), None)


def kendall_tau(ours: Sequence[float], papers: Sequence[float]) -> float | None:
    """Kendall's tau-b: how far two orders of the same rows agree, 1 wholly, -1 reversed; ties count for neither."""
    pairs = list(itertools.combinations(range(len(ours)), 2))
    signs = [(_sign(ours[i] - ours[j]), _sign(papers[i] - papers[j])) for i, j in pairs]
    untied = math.prod(sum(bool(sign[side]) for sign in signs) for side in (0, 1))
    return sum(mine * theirs for mine, theirs in signs) / math.sqrt(untied) if untied else None


def tau_by_chance(count: int) -> float:
    """What 95 % of the taus of two unrelated orders of so many rows are within (normal approximation)."""
    return 1.96 * math.sqrt(2 * (2 * count + 5) / (9 * count * (count - 1)))


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
