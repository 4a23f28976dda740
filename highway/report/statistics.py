"""Means over seeds, differences between rows paired by seed, and what they say of a claim."""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from highway.config.metrics import METRICS, Metric
from highway.report.collect import Collected, Point, Sample
from highway.sweep.table import Claim, Table

LEVEL = 0.95
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
    return _around(values, math.sqrt(1 / len(values)))


def prediction(values: Sequence[float]) -> tuple[float, float]:
    """In which the value of one more seed would lie with 95 %."""
    return _around(values, math.sqrt(1 + 1 / len(values)))


def _around(values: Sequence[float], deviations: float) -> tuple[float, float]:
    half = stats.t.ppf((1 + LEVEL) / 2, len(values) - 1) * statistics.stdev(values) * deviations
    return statistics.fmean(values) - half, statistics.fmean(values) + half


@dataclass(frozen=True)
class Answer:
    """To the question whether one of the paper's numbers comes back."""

    comes_back: bool
    missed_by: float  # our mean relative to the paper's number, less 1

    def __str__(self) -> str:
        return "comes back" if self.comes_back else f"missed by {self.missed_by:+.1%}"


def answer(values: Sequence[float], paper: float, digits: int, collected: Collected) -> Answer | None:
    """At paper budget, on the paper's data, from three seeds on; `digits`: to which the paper's number is rounded."""
    if collected.budget != "paper" or not collected.full_data or len(values) < ENOUGH_SEEDS:
        return None
    low, high = prediction(values)
    rounding = 0.5 * 10**-digits
    return Answer(low - rounding <= paper <= high + rounding, statistics.fmean(values) / paper - 1)


@dataclass(frozen=True)
class Difference:
    """Of one row from another, over the seeds that both have."""

    mean: float
    low: float  # of its 95 % confidence interval
    high: float
    p: float  # of a paired t-test, Holm's correction for all rows that are compared included


def differences(collected: Collected, metric: str) -> dict[str, Difference]:
    """By row, from the table's first row; rows without two seeds in common with it have none."""
    select, base = collected.table.select, collected.table.rows[0].id
    of_base = {one.seed: one.value(metric, select) for one in collected.finished(base) if one.tells(metric)}
    found: dict[str, list[float]] = {}
    for row in collected.table.rows[1:]:
        samples = [one for one in collected.finished(row.id) if one.seed in of_base and one.tells(metric)]
        if len(samples) > 1:
            found[row.id] = [one.value(metric, select) - of_base[one.seed] for one in samples]
    chances = holm([_p_of(values) for values in found.values()])
    return {
        row_id: Difference(statistics.fmean(values), *interval(values), p)
        for (row_id, values), p in zip(found.items(), chances, strict=True)
    }


def _p_of(values: Sequence[float]) -> float:
    """That a mean is zero; values that are all alike are no test."""
    if statistics.stdev(values) == 0:
        return 0.0 if values[0] else 1.0
    return float(stats.ttest_1samp(values, 0).pvalue)


def holm(chances: Sequence[float]) -> list[float]:
    """Holm (1979): p-values, each as if it were the only one that is looked at."""
    corrected, highest = [0.0] * len(chances), 0.0
    for rank, place in enumerate(sorted(range(len(chances)), key=lambda place: chances[place])):
        highest = max(highest, min(chances[place] * (len(chances) - rank), 1.0))
        corrected[place] = highest
    return corrected


AGREE = ("supported", "same ordering", "seed agrees", "comes back")
DISAGREE = ("refuted", "other ordering", "seed disagrees", "missed")


def tone(word: str) -> str:
    """Of a verdict or an answer: for, against or open."""
    if any(one in word for one in DISAGREE):
        return "against"
    return "for" if any(one in word for one in AGREE) else "open"


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
        return Verdict(claim, f"{_ordering(advantages)} ({where})", detail)
    word = _word(advantages)
    if claim.kind == "unrelated" and word == "supported":
        word = "no evidence against it"  # which is all that seeing no relation can be
    return Verdict(claim, word, detail)


def _ordering(advantages: Sequence[float]) -> str:
    if not any(advantages):
        return "tied"
    if len({value > 0 for value in advantages}) > 1:
        return "seeds disagree"
    return "same ordering" if advantages[0] > 0 else "other ordering"


def _word(advantages: Sequence[float]) -> str:
    if not any(advantages):
        return "tied"
    agree = sum(value > 0 for value in advantages)
    if len(advantages) == 1:
        return "one seed agrees" if agree else "one seed disagrees"
    if len(advantages) < ENOUGH_SEEDS or any(math.isinf(value) for value in advantages):
        return f"{agree} of {len(advantages)} seeds agree"
    low, high = interval(advantages)
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
    final = reference[-1].value
    reached = first_reached(row.curve(metric), final, metric)
    return -math.inf if reached is None else (first_reached(reference, final, metric) or 0) - reached


def first_reached(curve: Sequence[Point], value: float, metric: Metric) -> float | None:
    """The first step at which a curve is as good as `value`."""
    return next((point.step for point in curve if metric.as_good(point.value, value)), None)


def mean_between(curve: Sequence[Point], reference: Sequence[Point]) -> float | None:
    """The area between two curves over the steps that both have, divided by these steps: how far apart they lie."""
    here, there = ({point.step: point.value for point in one} for one in (curve, reference))
    steps = sorted(here.keys() & there.keys())
    if len(steps) < 2:
        return None
    return float(np.trapezoid([here[step] - there[step] for step in steps], steps)) / (steps[-1] - steps[0])


def kendall_tau(ours: Sequence[float], papers: Sequence[float]) -> float | None:
    """Kendall's tau-b: how far two orders of the same rows agree, 1 wholly, -1 reversed; ties count for neither."""
    if len(set(ours)) < 2 or len(set(papers)) < 2:
        return None
    return float(stats.kendalltau(ours, papers).statistic)


def tau_by_chance(count: int) -> float:
    """What 95 % of the taus of two unrelated orders of so many rows are within (normal approximation)."""
    return 1.96 * math.sqrt(2 * (2 * count + 5) / (9 * count * (count - 1)))
