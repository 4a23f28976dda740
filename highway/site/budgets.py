"""A table at one budget, as its page shows it: the report, the cost of each run, and the files to download."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from highway.report.collect import Collected, collect
from highway.report.report import Report, build_report
from highway.report.sample import Sample
from highway.report.sections import COPIED, Grid, GridCell, GridRow, Head, Measured, Number, Paragraph, Section
from highway.report.status import StatusLine, row_status
from highway.sweep.table import Figure, Row, Table

DISTURBED = " (beside other work)"


@dataclass(frozen=True)
class BudgetReport:
    """A table at one budget, as its page shows it."""

    collected: Collected
    figures: tuple[Figure, ...]  # those already drawn
    status: dict[str, list[StatusLine]]  # of the runs of a row, by row id

    @cached_property
    def report(self) -> Report:
        return build_report(self.collected, self.figures)

    @property
    def budget(self) -> str:
        return self.collected.budget

    @property
    def sections(self) -> tuple[Section, ...]:
        return *self.report.sections, cost_section(self.report)

    @property
    def extended(self) -> bool:
        """Return whether the report is about rows with overrides of the command line."""
        return any(row.added for row in self.collected.table.rows)

    @property
    def finished(self) -> int:
        """The number of `rows` that have a finished seed."""
        return sum(bool(self.collected.finished(row.id)) for row in self.rows)

    @property
    def rows(self) -> list[Row]:
        """The rows of the paper; or those with overrides of the command line, if the report is about them."""
        rows = self.collected.table.at(self.budget)
        return [row for row in rows if (row.added if self.extended else not row.extra)]

    @property
    def seconds(self) -> float:
        costs = {sample.directory: sample.result["cost"].get("seconds", 0) for sample in self.collected.every}
        return sum(costs.values())

    @property
    def verdicts(self) -> list[tuple[str, int]]:
        """Each word of the verdicts, and its count."""
        return self.report.words.most_common()


def budget_reports(table: Table, outputs: Path, folder: Path) -> list[BudgetReport]:
    """Return the report at each budget that has records or runs underway."""
    reports = []
    for budget in table.budgets:
        collected = replace(collect(table, budget, outputs), only_run=any(row.added for row in table.rows))
        status = {row.id: row_status(table, row, budget, outputs) for row in table.rows}
        if collected.every or any(status.values()):
            drawn = (figure for figure in table.figures if (folder / table.id / budget / f"{figure.id}.svg").exists())
            reports.append(BudgetReport(collected, tuple(drawn), status))
    return reports


def paper_section(table: Table) -> Section:
    """Return the numbers that the paper prints, which the page of a table shows before anything has run."""

    def numbers(row: Row) -> list[GridCell]:
        cells = (Measured(column, None, row.paper.get(column.metric), bool(row.copied)) for column in table.columns)
        return [cell.paper_number for cell in cells]

    rows = tuple(GridRow((row.label, *numbers(row)), row) for row in table.rows if not row.extra)
    heads = (Head("model"), *(Head(column.title, numeric=True) for column in table.columns))
    copied = dict.fromkeys(row.copied for row in table.rows if row.copied)
    note = Paragraph.of(f"{COPIED} copied by the paper from {', '.join(copied)}.", style="note")
    return Section("paper", "The paper's numbers", (Grid(heads, rows), *([note] if copied else [])))


def cost_section(report: Report) -> Section:
    """Return the cost of each run, which the page of a table shows below the report."""
    numbers = ("seed", "hours", "tokens/s", "MiB", "parameters")
    heads = (Head("model"), *(Head(title, numeric=True) for title in numbers), Head("device"))
    rows = tuple(
        GridRow((row.row.label, *_costs(sample)), row.row) for row in report.rows for sample in row.seeds.samples
    )
    note = Paragraph.of("The cost of each run. Compare speeds only between runs that had the machine to themselves.")
    return Section("cost", "Cost", (replace(note, style="note"), Grid(heads, rows)))


def _costs(sample: Sample) -> tuple[GridCell, ...]:
    cost, parameters = sample.result["cost"], sample.result.get("parameters") or {}
    disturbed = "" if cost.get("exclusive", True) else DISTURBED

    def number(value: float | None, form: str, unit: float = 1, mark: str = "") -> Number | None:
        return None if value is None else Number(value / unit, form, mark=mark)

    return (
        Number(sample.seed, "d"),
        number(cost.get("seconds"), ".2f", 3600),
        number(cost.get("tokens_per_second"), ",.0f", mark=disturbed),
        number(cost.get("peak_memory_bytes"), ",.0f", 1 << 20),
        number(parameters.get("total"), ",.0f"),
        cost["device"],
    )
