"""The paper's numbers against ours: equivalent, different or inconclusive. docs/STATISTICS.md defines the words.

`compare_numbers` is also what the simulation of verdicts calls. Shapes as in model.py.
"""

from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from scipy import special

from highway.config.margins import general_margin
from highway.config.metrics import METRICS
from highway.report.claims import on_log_scale
from highway.report.collect import Collected
from highway.report.model import LEVEL, Array, holm, row_spread
from highway.report.verdicts import ENOUGH_SEEDS, Records
from highway.sweep.table import Table

EQUIVALENCE = (
    "With three seeds, a number that is the mean of the paper's runs is found equivalent in 80 % of cases if its "
    "margin is about 1.8 standard deviations over seeds; a number of one run in 49 %."
)
EACH = slice(None)
SAME_MEASUREMENT = ("bpc", "ppl", "nll", "loss")  # of a split, the first that a table has stands for all


def margin(table: Table, metric: str) -> float | None:
    """Return the margin of a metric in a table; None for times, sparsity and others whose numbers are not compared."""
    return table.margins.get(metric, general_margin(metric))


def compared_metrics(table: Table) -> list[str]:
    """Return the columns whose numbers are compared with the paper's: one for each measurement."""
    metrics = [column.metric for column in table.columns if margin(table, column.metric) is not None]
    first: dict[str | None, str] = {}
    for kind in SAME_MEASUREMENT:
        for metric in metrics:
            if METRICS[metric].kind == kind:
                first.setdefault(METRICS[metric].split, metric)
    return [metric for metric in metrics if METRICS[metric].kind not in SAME_MEASUREMENT or metric in first.values()]


@dataclass(frozen=True)
class Answer:
    """The answer to whether a number of the paper is reproduced."""

    word: str  # equivalent, different or inconclusive
    size: str  # of the difference

    def __str__(self) -> str:
        return f"{self.word} ({self.size})" if self.word == "different" else self.word


@dataclass(frozen=True)
class Compared:
    """Numbers of the paper compared with ours, (B, R) each."""

    equivalent: NDArray[np.bool_]
    beyond: NDArray[np.bool_]  # our mean is further off than the margin
    p: Array  # that the paper's number is one more run, before the correction
    half: Array  # half the length of the 90 % interval of our mean; NaN without a spread


def compare_numbers(
    values: Array,
    paper: Array,
    margins: float,
    rounding: Array | float,
    floor: float = 0.0,
    place: slice | NDArray[np.intp] = EACH,
) -> Compared:
    """Compare runs (B, R, S) with the paper's numbers (B, R), both on the scale of the model.

    place: the row of `values` for each row of `paper`.
    """
    spread, freedom = (of_rows[:, place] for of_rows in row_spread(values, floor))
    values = values[:, place]
    present = ~np.isnan(values)
    count = np.where(present.any(2), present.sum(2), np.nan)
    mean = np.where(present, values, 0).sum(2) / count
    half = special.stdtrit(freedom, 1 - LEVEL) * spread / np.sqrt(count)  # of the 90 % interval
    distance = np.abs(mean - paper)
    t = np.maximum(distance - rounding, 0) / (spread * np.sqrt(1 + 1 / count))
    return Compared(distance + half <= margins, distance > margins, 2 * special.stdtr(freedom, -t), half)


def words(compared: Compared, corrected: Array) -> NDArray[np.str_]:
    """Return the word for each number, after the correction for all numbers of the table."""
    different = compared.beyond & (corrected < LEVEL)
    return np.where(compared.equivalent, "equivalent", np.where(different, "different", "inconclusive"))


def counted(table: Table) -> list[tuple[str, str]]:
    """Return the row and metric of each number that our runs can answer.

    Left out: numbers copied from other papers, rows that were something else in the paper, and what has no margin.
    """
    rows = [row for row in table.rows if not row.copied and not row.disputed]
    return [(row.id, metric) for metric in compared_metrics(table) for row in rows if metric in row.paper]


def answers(collected: Collected) -> dict[tuple[str, str], Answer]:
    """Answer each counted number of which the row has three sound seeds, at paper budget with the paper's data."""
    table = collected.table
    if collected.budget != "paper" or not collected.full_data:
        return {}
    records = Records(collected)
    numbers = counted(table)
    by_metric = {metric: against_paper(records, metric) for metric in dict.fromkeys(metric for _, metric in numbers)}
    position = {row: number for number, row in enumerate(records.rows)}
    p = np.array([by_metric[metric].p[0, position[row]] for row, metric in numbers])
    ready = [len(collected.values(row, metric)) >= ENOUGH_SEEDS for row, metric in numbers]
    corrected = holm(np.where(ready, np.nan_to_num(p, nan=1.0), 1.0))
    found = {}
    for (row, metric), enough, number_p in zip(numbers, ready, corrected, strict=True):
        if enough:
            word = words(by_metric[metric], np.full(by_metric[metric].p.shape, number_p))[0, position[row]]
            found[row, metric] = Answer(str(word), _size(collected, row, metric))
    return found


def against_paper(records: Records, metric: str) -> Compared:
    """Compare every row of a table with the paper's number in one metric, on the scale of the model."""
    table, log = records.collected.table, on_log_scale(metric)
    sign = -1.0 if METRICS[metric].better == "lower" else 1.0
    values = records.values(metric, log)
    values = np.where(np.isfinite(values), sign * values, np.nan)
    paper = np.array([[row.paper.get(metric, np.nan) for row in table.rows]])
    digits = next(column.digits for column in table.columns if column.metric == metric)
    rounding: Array | float = 0.5 * 10.0**-digits
    allowed = margin(table, metric) or 0.0
    if log:
        paper, rounding, allowed = np.log(paper), rounding / paper, float(np.log1p(allowed))
    return compare_numbers(values, paper, allowed, rounding, records.floor(metric, log), records.place)


def _size(collected: Collected, row: str, metric: str) -> str:
    """Return how far the mean is from the paper's number."""
    return f"{fmean(collected.values(row, metric)) / collected.table.row(row).paper[metric] - 1:+.1%}"
