"""The paper's numbers against ours: within, outside or too wide. docs/STATISTICS.md defines the words."""

import math
import statistics
from dataclasses import dataclass

from highway.cards.metrics import LIKELIHOOD, METRICS
from highway.report.collect import Collected
from highway.report.numbers import Numbers
from highway.report.statistics import CLOSE, LOOKS, on_log_scale, paper_word, prediction_interval
from highway.tables.table import Column, Table

PAPER_WORDS = ("within", "outside", "too wide")
ENOUGH = LOOKS[0]  # runs for a prediction interval
SPLITS = ("test", None, "valid", "train")  # a number counts on the first that the paper prints; BLEU has no split


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


def counted(table: Table) -> list[tuple[str, Column]]:
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


def paper_verdicts(collected: Collected) -> dict[tuple[str, str], PaperVerdict]:
    """Judge each counted number of which the row has three sound runs, at paper budget with the paper's data."""
    if collected.budget != "paper" or not collected.full_data:
        return {}
    numbers = Numbers(collected)
    return {
        (row, column.metric): _judged(values, collected.table.row(row).paper[column.metric], column, numbers)
        for row, column in counted(collected.table)
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
