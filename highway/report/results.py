"""The results of a table: for each row and metric our mean, the paper's number, and why there is none of ours."""

from collections.abc import Sequence
from dataclasses import dataclass

from highway.config.metrics import METRICS, OF_A_RECORD
from highway.report.collect import Collected
from highway.report.counting import is_sound, is_unchecked
from highway.report.reproduction import Answer
from highway.report.sections import Measured, Seeds
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
    unlearned = sum(not is_sound(sample, table.select) for sample in collected.finished(row.id))
    unchecked = sum(map(is_unchecked, collected.finished(row.id)))
    return ResultRow(row, Seeds(collected.samples[row.id], unlearned, unchecked), measured, also)


def _measured(
    row: Row, columns: Sequence[Column], collected: Collected, found: dict[tuple[str, str], Answer]
) -> tuple[Measured, ...]:
    base = collected.table.base(row.id)
    cells = []
    for column in columns:
        ours, of_base = (collected.summary(name, column.metric) if name else None for name in (row.id, base))
        if base and METRICS[column.metric].measures_quality:  # two rows that have not learned say nothing of each other
            learned = any(map(collected.learned, (row.id, base)))
            of_base = of_base if learned and collected.comparable(row.id, base) else None
        of_paper = collected.table.row(base).paper.get(column.metric) if base else None
        answer, paper = found.get((row.id, column.metric)), row.paper.get(column.metric)
        reason = "" if ours else _reason(row, column.metric, collected)
        cells.append(Measured(column, ours, paper, bool(row.copied), answer, of_base, of_paper, reason))
    return tuple(cells)


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
