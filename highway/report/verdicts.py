"""Put into words what statistics.py infers: verdicts on claims, and on the paper's numbers.

docs/STATISTICS.md defines the words.
"""

import math
import statistics
from dataclasses import dataclass, replace

import numpy as np

from highway.cards.metrics import LIKELIHOOD, METRICS
from highway.errors import listing
from highway.report.baselines import Size
from highway.report.collect import Collected, Numbers
from highway.report.effects import Effect, effect_of
from highway.report.statistics import (
    CLOSE,
    LOOKS,
    Array,
    compares_ratios,
    comparisons,
    decisions,
    judge,
    on_log_scale,
    paper_word,
    prediction_interval,
)
from highway.tables.table import Claim, Column, Table

NOT_RUN, NO_NUMBER, NOT_SO_LONG = "not run", "no number that counts", "not trained so long"
ONE_RUN, SAME_RUNS = "one run", "same runs"
NOT_REPRODUCED = "baseline not reproduced"
AGREE = ("supported", "same ordering", "better", "within")
DISAGREE = ("refuted", "other ordering", "worse", "outside")
SUPPORTED = {1: "supported", -1: "refuted", 0: "undecided"}
ORDERED = {1: "same ordering", -1: "other ordering", 0: "undecided"}
OF_ONES_OWN = {1: "better", -1: "worse", 0: "undecided"}
PAPER_WORDS = ("within", "outside", "too wide")
ENOUGH = LOOKS[0]  # runs for a prediction interval
SPLITS = ("test", None, "valid", "train")  # a number counts on the first that the paper prints; BLEU has no split


def tone(word: str) -> str:
    """Return what a verdict says of the paper: for, against or open."""
    if word.startswith(DISAGREE):
        return "against"
    return "for" if word.startswith(AGREE) else "open"


@dataclass(frozen=True)
class PaperVerdict:
    """A number of the paper, judged by the 95 % prediction interval of one more run of ours."""

    column: Column
    word: str  # one of PAPER_WORDS
    low: float
    high: float

    @property
    def interval(self) -> str:
        return f"{self.column.text(self.low)} … {self.column.text(self.high)}"

    def __str__(self) -> str:
        return f"{self.word}: {self.interval}"


def measurement(metric: str) -> str:
    """Return what a metric measures, on whatever split."""
    kind = METRICS[metric].kind
    return "likelihood" if kind in LIKELIHOOD else kind


def counted_numbers(table: Table) -> list[tuple[str, Column]]:
    """Return the row and column of each number that our runs can judge. Each measurement of a row counts once.

    Left out: numbers copied from other papers, rows that were something else in the paper, times and sparsities.
    """

    def rank(column: Column) -> tuple[int, int]:
        card = METRICS[column.metric]
        return SPLITS.index(card.split), LIKELIHOOD.index(card.kind) if card.kind in LIKELIHOOD else 0

    found: dict[tuple[str, str], Column] = {}
    for row in (row for row in table.rows if not row.copied and not row.disputed):
        printed = (column for column in table.columns if column.metric in row.paper)
        for column in sorted((each for each in printed if METRICS[each.metric].measures_quality), key=rank):
            found.setdefault((row.id, measurement(column.metric)), column)
    return [(row, column) for (row, _), column in found.items()]


PaperVerdicts = dict[tuple[str, str], PaperVerdict]  # by row and metric


def paper_verdicts(collected: Collected) -> PaperVerdicts:
    """Judge each counted number of which the row has three sound runs, at paper budget with the paper's data."""
    if collected.budget != "paper" or not collected.full_data:
        return {}
    return {
        (row, column.metric): _judged(values, collected.table.row(row).paper[column.metric], column, collected.numbers)
        for row, column in counted_numbers(collected.table)
        if len(values := collected.values(row, column.metric)) >= ENOUGH
    }


def _judged(values: list[float], paper: float, column: Column, numbers: Numbers) -> PaperVerdict:
    """Judge a number of the paper by the runs of its row."""
    log = on_log_scale(column.metric)
    ends = prediction_interval(
        [math.log(value) for value in values] if log else values, numbers.floor(column.metric, log)
    )
    low, high = map(math.exp, ends) if log else ends
    mean = statistics.fmean(values)
    near = CLOSE * abs(1 - mean if METRICS[column.metric].kind == "accuracy" else mean)  # of an error rate
    word = paper_word(paper, 0.5 * 10.0**-column.digits, (low, high), (mean - near, mean + near))
    return PaperVerdict(column, word, low, high)


@dataclass(frozen=True)
class Verdict:
    claim: Claim
    word: str  # supported, refuted, ..., or the reason why neither
    detail: str = ""
    next_look: int = 0  # the runs of each row at which an undecided claim is tested again
    effect: Effect | None = None

    def __str__(self) -> str:
        return f"{self.word}; next at {self.next_look} runs" if self.next_look else self.word


def verdicts(collected: Collected, paper: PaperVerdicts) -> list[Verdict]:
    """Return the verdict on every claim of the table; smoke runs of a paper's give none.

    paper: those on the paper's numbers; a claim is supported or refuted only if that of its baseline is within.
    """
    claims = [] if collected.only_works else claims_of(collected)
    if not claims:
        return []
    evidence = Evidence(collected, paper)
    p_values = judge(claims, collected.numbers)
    found = [
        evidence.verdict(claim, int(decision), float(p))
        for claim, (decision,), (p,) in zip(claims, decisions(p_values), p_values.min(1), strict=True)
    ]
    return [replace(each, effect=effect_of(each.claim, each.word, collected)) for each in found]


def claims_of(collected: Collected) -> list[Claim]:
    """Return the claims of a table; without any, and of rows with overrides, that each row beats its baseline."""
    table = collected.table
    if not collected.has_overrides and (table.claims or table.paper):
        return table.claims
    rows = [row for row in table.rows if row.added or not collected.has_overrides]
    pairs = [(row.id, base) for row in rows if (base := table.base(row.id))]
    return [Claim(text=row, better=[row], than=[base], metric=table.headline) for row, base in pairs]


class Evidence:
    """The records of a table, and what they say about its claims."""

    def __init__(self, collected: Collected, paper: PaperVerdicts) -> None:
        self.collected, self.table, self.numbers = collected, collected.table, collected.numbers
        self.missed = {  # numbers that count and are not reproduced, by row and measurement
            (row, measurement(column.metric))
            for row, column in counted_numbers(self.table)
            if (row, column.metric) not in paper or paper[row, column.metric].word != "within"
        }

    def verdict(self, claim: Claim, decision: int, p: float) -> Verdict:
        """Return the verdict on a claim from its test."""
        names = (*claim.rows, *claim.than)
        runs = {name: self.numbers.values(name, claim.metric, log=False, over=claim.over)[0] for name in names}
        if not all(map(self.collected.has_ended, names)):
            return Verdict(claim, NOT_RUN)
        if not self.collected.comparable(*names):
            return Verdict(claim, "not comparable", "the rows differ in their data or vocabulary")
        if not all(map(len, runs.values())):
            return Verdict(claim, NOT_SO_LONG if claim.over else NO_NUMBER)
        if all(self.numbers.twin(row) == self.numbers.twin(than) for row, than in claim.pairs):
            return Verdict(claim, SAME_RUNS)
        if min(map(len, runs.values())) == 1:
            return Verdict(claim, ONE_RUN)
        failed = [self._failed(name, values) for name, values in runs.items() if np.isneginf(values).any()]
        detail = listing(failed) or self._pair(claim)
        if decision or not failed:
            detail += f", p {'below 0.001' if p < 0.001 else f'{p:.3f}'}"
        return Verdict(claim, self._word(claim, decision), detail, 0 if decision else next_look([*runs.values()]))

    def _word(self, claim: Claim, decision: int) -> str:
        if self.collected.of_ones_own:
            return OF_ONES_OWN[decision]
        full_data = self.collected.full_data
        if self.collected.budget == "paper" and full_data:
            needed = measurement(claim.metric)
            reproduced = not any((self.table.oriented(*pair)[1], needed) in self.missed for pair in claim.pairs)
            if reproduced or not decision:
                return SUPPORTED[decision]
            return f"{ORDERED[decision]} ({NOT_REPRODUCED})"
        data = "" if full_data else f", {self.collected.data_source} data"
        return f"{ORDERED[decision]} ({self.collected.budget}{data})"

    def _failed(self, row: str, values: Array) -> str:
        """Return how many runs of a row have learned."""
        return f"{self.table.row(row).label} has learned in {np.isfinite(values).sum()} of {len(values)} runs"

    def _pair(self, claim: Claim) -> str:
        """Return the size, over all runs, of the pair that is clearest against a claim, or else least in its favour."""
        pairs = comparisons(claim, self.numbers)
        number = int(np.argmax([float(2 - pair.p[0] if pair.size[0] < 0 else pair.p[0]) for pair in pairs]))
        (row, than), metric, compared = claim.pairs[number], METRICS[claim.metric], pairs[number]
        sign = -1 if metric.better == "lower" else 1
        limit = f" (limit {100 * claim.share:+.1f} %)" if claim.kind == "at_most" else ""
        if claim.kind == "growing":
            sign, (row, than) = 1, (claim.pairs[number + 1][0], row)
        elif not limit and self.table.oriented(row, than) != (row, than):
            sign, row, than = -sign, than, row
        digits, shift = self.table.digits(metric.name), math.log1p(claim.share)
        size = Size.of(compared, sign, digits, compares_ratios(claim), shift)
        names = [self.table.row(name).label for name in (row, than)]
        named = "gain of {} against that of {}" if claim.kind == "growing" else "{} against {}"
        return f"{named.format(*names)}{limit}: {SAME_RUNS if math.isnan(size.low) else size}"


def next_look(rows: list[Array]) -> int:
    """Return the runs of each row at which a claim on these rows is tested again; 0 if never."""
    fewest = min(map(len, rows))
    return next((look for look in LOOKS if look > fewest and not any(np.isneginf(row[:look]).any() for row in rows)), 0)
