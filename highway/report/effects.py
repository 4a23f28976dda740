"""The effect that a claim is about: the paper's, ours, and a word for the two. docs/STATISTICS.md defines the words."""

import math
from dataclasses import dataclass

import numpy as np

from highway.config.metrics import METRICS
from highway.report.baselines import Size
from highway.report.collect import Collected
from highway.report.numbers import Numbers
from highway.report.statistics import Comparison, compare, effect_word, on_log_scale
from highway.sweep.table import Claim, Column, Row


@dataclass(frozen=True)
class Effect:
    """The difference of a row from its baseline in a test number."""

    row: Row
    base: Row
    column: Column
    paper: Size  # its interval is what the rounding of the paper's numbers leaves open
    ours: Size | None = None  # None without runs of both rows on the paper's data, and if one of them failed
    word: str = ""  # empty without an interval of ours

    def __str__(self) -> str:
        return f"{self.word} (paper: {self.paper.text})" if self.word else ""


def effect_of(claim: Claim, collected: Collected, numbers: Numbers) -> Effect | None:
    """Return the effect that a claim is about; None unless it compares one pair of the paper's own test numbers."""
    card, table = METRICS[claim.metric], collected.table
    on_test = card.measures_quality and card.split in ("test", None)
    if collected.of_ones_own or claim.kind != "better" or claim.over or len(claim.pairs) > 1 or not on_test:
        return None
    (pair,) = claim.pairs
    row, base = map(table.row, reversed(pair) if table.base(pair[1]) == pair[0] else pair)
    if any(each.copied or each.disputed or claim.metric not in each.paper for each in (row, base)):
        return None
    log, sign, digits = on_log_scale(claim.metric), -1 if card.better == "lower" else 1, table.digits(claim.metric)
    column = next(column for column in table.columns if column.metric == claim.metric)
    stated = _stated(row.paper[claim.metric], base.paper[claim.metric], 0.5 * 10.0**-column.digits, sign, log)
    paper = Size.of(stated, sign, column.digits, log)
    runs = [numbers.values(each.id, claim.metric, log) for each in (row, base)]
    compared = compare([(1.0, runs[0]), (-1.0, runs[1])], numbers.floor(claim.metric, log))
    same_data = collected.full_data and numbers.comparable(row.id, base.id)
    same_runs = numbers.twin(row.id) == numbers.twin(base.id)
    if same_runs or not same_data or math.isnan(compared.size[0]):
        return Effect(row, base, column, paper)
    ours = Size.of(compared, sign, digits, log)
    word = "" if math.isnan(ours.low) else effect_word(compared, stated)
    return Effect(row, base, column, paper, ours, word)


def _stated(row: float, base: float, rounding: float, sign: int, log: bool) -> Comparison:
    """Return the paper's difference, on a scale on which higher is better; `half` is what its rounding leaves open."""
    size, half = (math.log(row / base), rounding / row + rounding / base) if log else (row - base, 2 * rounding)
    return Comparison(np.array([sign * size]), np.array([half]), np.ones(1))
