"""The results of a table: for each row and metric our mean, the paper's number, and why there is none of ours."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from highway.config.metrics import METRICS, OF_A_RECORD
from highway.report.answers import Answer
from highway.report.collect import Collected
from highway.report.counting import is_unchecked, unlearned
from highway.report.sections import Measured, Seeds
from highway.report.statistics import on_log_scale
from highway.sweep.table import Column, Row


@dataclass(frozen=True)
class ResultRow:
    row: Row
    seeds: Seeds
    measured: tuple[Measured, ...]  # by the table's columns
    also: tuple[Measured, ...]  # by the columns that the paper lacks


def result_row(row: Row, collected: Collected, found: dict[tuple[str, str], Answer]) -> ResultRow:
    """Return what was measured for a row; `found`: the answers by row and metric."""
    table = collected.table
    measured, also = (_measured(row, columns, collected, found) for columns in (table.columns, table.also))
    finished = collected.finished(row.id)
    no_better = tuple(
        f"seed {each.seed} {text}" if len(finished) > 1 else text
        for each in finished
        if (text := unlearned(each, table.select))
    )
    unchecked = sum(map(is_unchecked, finished))
    return ResultRow(row, Seeds(collected.samples[row.id], no_better, unchecked), measured, also)


def _measured(
    row: Row, columns: Sequence[Column], collected: Collected, found: dict[tuple[str, str], Answer]
) -> tuple[Measured, ...]:
    base = collected.table.base(row.id)
    cells = []
    for column in columns:
        ours = collected.summary(row.id, column.metric)
        change = _change(row.id, base, column.metric, collected) if base else None
        of_paper = collected.table.row(base).paper.get(column.metric) if base else None
        answer, paper = found.get((row.id, column.metric)), row.paper.get(column.metric)
        reason = "" if ours else _reason(row, column.metric, collected)
        cells.append(Measured(column, ours, paper, bool(row.copied), answer, change, of_paper, reason))
    return tuple(cells)


def _change(row: str, base: str, metric: str, collected: Collected) -> float | None:
    """Return the change of a row against its baseline, as a share, at the seeds that both have.

    None where runs of either have failed, as for the difference between the two (highway/report/baselines.py).
    """
    if METRICS[metric].measures_quality and not (
        collected.comparable(row, base) and all(map(collected.all_learned, (row, base)))
    ):
        return None
    ours, theirs = (collected.by_seed(name, metric) for name in (row, base))
    shared = ours.keys() & theirs.keys()
    if not shared or not all(theirs[seed] for seed in shared):
        return None
    if on_log_scale(metric):
        return math.expm1(fmean(math.log(ours[seed] / theirs[seed]) for seed in shared))
    return fmean(ours[seed] for seed in shared) / fmean(theirs[seed] for seed in shared) - 1


def _reason(row: Row, metric: str, collected: Collected) -> str:
    """Return why a row has no value of a metric."""
    samples = collected.samples[row.id]
    if not samples:
        return "not run" if row.at(collected.budget) else "not at this budget"
    if not collected.finished(row.id):
        return ", ".join(dict.fromkeys(sample.result["status"] for sample in samples))
    measured = any(metric in sample.result["metrics"] for sample in collected.finished(row.id))
    return (
        "beside other work" if METRICS[metric].is_disturbed and (metric in OF_A_RECORD or measured) else "not measured"
    )
