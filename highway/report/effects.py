"""The effect that a claim is about: the paper's, ours, and a word for the two. docs/STATISTICS.md defines the words."""

import math
from dataclasses import dataclass

from highway.cards.metrics import METRICS
from highway.report.baselines import Size, between
from highway.report.collect import Collected
from highway.report.statistics import effect_word, on_log_scale
from highway.tables.table import Claim, Column, Row


@dataclass(frozen=True)
class Effect:
    """The difference of a row from its baseline in a test number."""

    row: Row
    base: Row
    column: Column
    word: str  # the word for ours beside the paper's, or the reason why there is none
    paper: Size  # without an interval
    ours: Size | None = None  # None without runs of both rows on the paper's data, and if one of them failed
    next: Size | None = None  # ours, with the interval of the difference of one more run of each row

    def __str__(self) -> str:
        return f"{self.word} (paper: {self.paper.text})"


def effect_of(claim: Claim, verdict: str, collected: Collected) -> Effect | None:
    """Return the effect that a claim is about; None unless it compares one pair of the paper's own test numbers.

    verdict: the word of the claim's verdict, which is the reason if there are not two runs of each row.
    """
    card, table = METRICS[claim.metric], collected.table
    on_test = card.measures_quality and card.split in ("test", None)
    if collected.of_ones_own or claim.kind != "better" or claim.over or len(claim.pairs) > 1 or not on_test:
        return None
    row, base = map(table.row, table.oriented(*claim.pairs[0]))
    column = next((column for column in table.columns if column.metric == claim.metric), None)
    if not column or any(each.copied or each.disputed or claim.metric not in each.paper for each in (row, base)):
        return None
    log, sign = on_log_scale(claim.metric), -1 if card.better == "lower" else 1
    theirs, of_base = row.paper[claim.metric], base.paper[claim.metric]
    difference = theirs / of_base - 1 if log else theirs - of_base
    paper = Size(difference, math.nan, math.nan, column.digits, log)
    compared = between(row.id, base.id, claim.metric, collected.numbers)
    if compared is None:
        return Effect(row, base, column, verdict, paper)
    if not collected.full_data or math.isnan(compared.size[0]):
        return Effect(row, base, column, "a run failed" if collected.full_data else "other data", paper)
    digits = table.digits(claim.metric)
    ours = Size.of(compared, sign, digits, log)
    following = Size.of(compared._replace(half=compared.reach), sign, digits, log)
    if math.isnan(ours.low):
        return Effect(row, base, column, verdict, paper, ours, following)
    rounding = 0.5 * 10.0**-column.digits * (1 / theirs + 1 / of_base if log else 2)
    word = effect_word(compared, sign * (math.log1p(difference) if log else difference), rounding)
    return Effect(row, base, column, word, paper, ours, following)
