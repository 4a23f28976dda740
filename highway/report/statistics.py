"""Means over seeds, differences between rows paired by seed, and verdicts on claims."""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

from highway.config.metrics import METRICS
from highway.report.collect import Collected, Sample
from highway.report.convergence import first_reached
from highway.sweep.table import Claim, Table

LEVEL = 0.95
ENOUGH_SEEDS = 3


@dataclass(frozen=True)
class Summary:
    mean: float
    deviation: float | None  # over seeds (n - 1); None for one seed
    count: int


def summarise(values: Sequence[float]) -> Summary | None:
    """Return mean and standard deviation, or None without values."""
    if not values:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Summary(statistics.fmean(values), deviation, len(values))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the mean."""
    return _around(values, math.sqrt(1 / len(values)))


def prediction(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % prediction interval for one more seed."""
    return _around(values, math.sqrt(1 + 1 / len(values)))


def _around(values: Sequence[float], scale: float) -> tuple[float, float]:
    half = stats.t.ppf((1 + LEVEL) / 2, len(values) - 1) * statistics.stdev(values) * scale
    return statistics.fmean(values) - half, statistics.fmean(values) + half


@dataclass(frozen=True)
class Answer:
    """The answer to whether a number of the paper comes back."""

    comes_back: bool
    missed_by: float  # our mean relative to the paper's number, less 1

    def __str__(self) -> str:
        return "comes back" if self.comes_back else f"missed by {self.missed_by:+.1%}"


def answer(values: Sequence[float], paper: float, digits: int, collected: Collected) -> Answer | None:
    """Compare our values with a number of the paper, which is rounded to `digits`.

    None below the budget `paper`, without the paper's data, or with fewer than three seeds.
    """
    if collected.budget != "paper" or not collected.full_data or len(values) < ENOUGH_SEEDS:
        return None
    low, high = prediction(values)
    rounding = 0.5 * 10**-digits
    return Answer(low - rounding <= paper <= high + rounding, statistics.fmean(values) / paper - 1)


@dataclass(frozen=True)
class Difference:
    """The difference between two rows, paired by the seeds that both have."""

    mean: float
    low: float  # end of the 95 % confidence interval
    high: float
    p: float  # of a paired t-test, after Holm's correction for all rows compared


def differences(collected: Collected, metric: str) -> dict[str, Difference]:
    """Return the difference of each row that shares at least two seeds with the first row."""
    select, baseline = collected.table.select, collected.table.rows[0].id
    baseline_values = {
        sample.seed: sample.value(metric, select)
        for sample in collected.finished(baseline)
        if sample.counts_for(metric)
    }
    paired: dict[str, list[float]] = {}
    for row in collected.table.rows[1:]:
        samples = [sample for sample in collected.finished(row.id) if sample.seed in baseline_values]
        samples = [sample for sample in samples if sample.counts_for(metric)]
        if len(samples) > 1:
            paired[row.id] = [sample.value(metric, select) - baseline_values[sample.seed] for sample in samples]
    p_values = holm([_p_value(values) for values in paired.values()])
    return {
        row_id: Difference(statistics.fmean(values), *interval(values), p)
        for (row_id, values), p in zip(paired.items(), p_values, strict=True)
    }


def _p_value(values: Sequence[float]) -> float:
    """Return the p-value of a t-test that the mean is zero; equal values leave no variance, so they give 0 or 1."""
    if statistics.stdev(values) == 0:
        return 0.0 if values[0] else 1.0
    return float(stats.ttest_1samp(values, 0).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for multiple comparisons (Holm 1979)."""
    corrected, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        highest = max(highest, min(p_values[index] * (len(p_values) - rank), 1.0))
        corrected[index] = highest
    return corrected


AGREE = ("supported", "same ordering", "seed agrees", "comes back")
DISAGREE = ("refuted", "other ordering", "seed disagrees", "missed")


def tone(word: str) -> str:
    """Return what a verdict or an answer says of the paper: for, against or open."""
    if any(part in word for part in DISAGREE):
        return "against"
    return "for" if any(part in word for part in AGREE) else "open"


@dataclass(frozen=True)
class Verdict:
    claim: Claim
    word: str  # supported, refuted, ..., or the reason why neither
    detail: str = ""


def judge(claim: Claim, collected: Collected) -> Verdict:
    """Return the verdict on a claim.

    `supported` and `refuted` need the budget `paper`, full data and three paired seeds.
    """
    by_seed = _common_seeds(claim, collected)
    if not by_seed:
        ran = all(collected.finished(name) for name in (*claim.rows, *claim.than))
        why = "no seed counts for all its rows; times do only where nothing else ran"
        return Verdict(claim, "not run", why if ran else "")
    if len({_data_identity(sample) for samples in by_seed for sample in samples.values()}) > 1:
        return Verdict(claim, "not comparable", "the rows differ in their data or vocabulary")
    compare = _by_rank if claim.to else _by_growth if claim.kind == "growing" else _by_pairs
    advantages, detail = compare(claim, by_seed, collected.table)
    if collected.budget != "paper" or not collected.full_data:
        scope = collected.budget + ("" if collected.full_data else f", {collected.data_source} data")
        return Verdict(claim, f"{_ordering(advantages)} ({scope})", detail)
    word = _word(advantages)
    if claim.kind == "unrelated" and word == "supported":
        word = "no evidence against it"  # the absence of a relation cannot be shown
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
    """Return the samples of all rows of the claim, for each seed that all of them have."""
    by_row = {
        name: {
            sample.seed: sample
            for sample in collected.finished(name)
            if sample.counts_for(claim.metric) and (not claim.to or sample.counts_for(claim.to))
        }
        for name in (*claim.rows, *claim.than)
    }
    seeds = sorted(set.intersection(*(set(samples) for samples in by_row.values())))
    return [{name: samples[seed] for name, samples in by_row.items()} for seed in seeds]


def _data_identity(sample: Sample) -> tuple[str, str]:
    data = sample.result["data"]
    return data.get("vocabulary_sha256", ""), str(sorted(data["sha256"].items()))


def _by_pairs(claim: Claim, by_seed: list[dict[str, Sample]], table: Table) -> tuple[list[float], str]:
    """Return, for each seed, the least advantage over all pairs (positive where the claim holds), and the evidence."""
    pairs = list(itertools.product(claim.rows, claim.than))
    advantages = [
        min(_advantage(claim, samples[row], samples[than], table) for row, than in pairs) for samples in by_seed
    ]
    unit = " steps" if claim.kind == "sooner" else ""
    listed = ", ".join("never reached" if math.isinf(value) else f"{value:+.4g}{unit}" for value in advantages)
    return advantages, f"{claim.metric}, {'least ' if len(pairs) > 1 else ''}advantage by seed: {listed}"


def _by_growth(claim: Claim, by_seed: list[dict[str, Sample]], table: Table) -> tuple[list[float], str]:
    """Return, for each seed, the least growth of the advantage from pair to pair, and the evidence."""
    by_pair = [
        [
            _advantage(claim, samples[row], samples[than], table)
            for row, than in zip(claim.rows, claim.than, strict=True)
        ]
        for samples in by_seed
    ]
    listed = "; ".join(", ".join(f"{value:+.4g}" for value in pairs) for pairs in by_pair)
    growth = [min(later - earlier for earlier, later in itertools.pairwise(pairs)) for pairs in by_pair]
    return growth, f"{claim.metric}, advantage from pair to pair, by seed: {listed}"


def _by_rank(claim: Claim, by_seed: list[dict[str, Sample]], table: Table) -> tuple[list[float], str]:
    """Return, for each seed, how far Kendall's tau of two metrics is from what chance gives, and the evidence."""
    chance = tau_by_chance(len(claim.rows))
    advantages, listed = [], []
    for samples in by_seed:
        metrics = (claim.metric, claim.to)
        orders = [[sample.value(metric, table.select) for sample in samples.values()] for metric in metrics]
        tau = kendall_tau(*orders)
        if tau is None:
            advantages.append(-math.inf)
        else:
            advantages.append(-tau - chance if claim.kind == "opposed" else chance - abs(tau))
        listed.append("none, all rows are alike" if tau is None else f"{tau:+.2f}")
    measure = f"{claim.metric} and {claim.to}, Kendall's tau by seed"
    return advantages, f"{measure}: {', '.join(listed)}; by chance within ±{chance:.2f}"


def _advantage(claim: Claim, row: Sample, than: Sample, table: Table) -> float:
    if claim.kind == "sooner":
        return _sooner(claim, row, than)
    difference = row.value(claim.metric, table.select) - (1 + claim.share) * than.value(claim.metric, table.select)
    return -difference if METRICS[claim.metric].better == "lower" else difference


def _sooner(claim: Claim, row: Sample, than: Sample) -> float:
    """Return the steps that `row` saves on the way to the final value of `than`; -inf if it never gets there."""
    metric = METRICS[claim.metric]
    reference = than.curve(metric)
    final = reference[-1].value
    reached = first_reached(row.curve(metric), final, metric)
    return -math.inf if reached is None else (first_reached(reference, final, metric) or 0) - reached


def kendall_tau(ours: Sequence[float], papers: Sequence[float]) -> float | None:
    """Return Kendall's tau-b of two orders of the same rows (1: equal, -1: reversed); None if all values are equal."""
    if len(set(ours)) < 2 or len(set(papers)) < 2:
        return None
    return float(stats.kendalltau(ours, papers).statistic)


def tau_by_chance(count: int) -> float:
    """Return the bound on |tau| that 95 % of unrelated orders of `count` rows keep (normal approximation)."""
    return 1.96 * math.sqrt(2 * (2 * count + 5) / (9 * count * (count - 1)))
