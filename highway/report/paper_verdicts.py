"""The paper's numbers against ours: within, outside or too wide. docs/STATISTICS.md defines the words."""

import math
from dataclasses import dataclass

from highway.config.metrics import METRICS
from highway.report.collect import Collected
from highway.report.numbers import Numbers
from highway.report.statistics import ENOUGH_SEEDS, on_log_scale, paper_word, prediction_interval
from highway.sweep.table import Column, Table

PAPER_WORDS = ("within", "outside", "too wide")
SAME_MEASUREMENT = ("bpc", "ppl", "nll", "loss")  # of a split, the first that a table has stands for all


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


def compared_columns(table: Table) -> list[Column]:
    """Return the columns whose numbers are compared with the paper's: one for each measurement of quality."""

    def rank(column: Column) -> int:
        kind = METRICS[column.metric].kind
        return SAME_MEASUREMENT.index(kind) if kind in SAME_MEASUREMENT else -1

    chosen = []
    for column in table.columns:
        card = METRICS[column.metric]
        same = [other for other in table.columns if METRICS[other.metric].split == card.split and rank(other) >= 0]
        if card.measures_quality and (rank(column) < 0 or column == min(same, key=rank)):
            chosen.append(column)
    return chosen


def counted(table: Table) -> list[tuple[str, Column]]:
    """Return the row and column of each number that our runs can judge.

    Left out: numbers copied from other papers, rows that were something else in the paper, times and sparsities.
    """
    rows = [row for row in table.rows if not row.copied and not row.disputed]
    return [(row.id, column) for column in compared_columns(table) for row in rows if column.metric in row.paper]


def paper_verdicts(collected: Collected) -> dict[tuple[str, str], PaperVerdict]:
    """Judge each counted number of which the row has three sound seeds, at paper budget with the paper's data."""
    if collected.budget != "paper" or not collected.full_data:
        return {}
    numbers, found = Numbers(collected), {}
    for row, column in counted(collected.table):
        values = collected.values(row, column.metric)
        if len(values) >= ENOUGH_SEEDS:
            log = on_log_scale(column.metric)
            scaled = [math.log(value) for value in values] if log else values
            ends = prediction_interval(scaled, numbers.floor(column.metric, log))
            low, high = map(math.exp, ends) if log else ends
            word = paper_word(collected.table.row(row).paper[column.metric], 0.5 * 10.0**-column.digits, low, high)
            found[row, column.metric] = PaperVerdict(column, word, low, high)
    return found
