"""Write the reports of tables as files, and print them: what `highway report TABLE` does."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, TableElement
from rich.table import Table

from highway.ledger.files import write_text
from highway.report.collect import Collected, collect
from highway.report.content import Report, build_report
from highway.report.details import claims_to_csv, to_csv
from highway.report.render import effects_to_latex, to_latex, to_markdown
from highway.tables.grid import folder_of
from highway.tables.reading import command, find, grid_names, left_out, table_ids
from highway.tables.rows import with_overrides
from highway.tables.table import ReportRequest

FILES: dict[str, Callable[[Report], str]] = {  # a file without a text is not kept
    "table.md": to_markdown,
    "table.csv": lambda report: to_csv(report.collected),
    "table.tex": to_latex,
    "claims.csv": lambda report: claims_to_csv(report.collected, report.verdicts),
    "effects.tex": effects_to_latex,
}


def report_tables(names: Sequence[str], budget: str | None, overrides: Sequence[str], outputs: Path) -> None:
    """Write and print the reports of these tables and grids, or of all; without a budget, at each that has records."""
    shown = False
    for name in names or [*table_ids(), *grid_names(outputs)]:
        with nullcontext() if names else left_out(name):
            table = find(name, outputs)
            budgets = [budget] if budget else [*table.budgets]
            requests = [(table, each, tuple(overrides)) for each in budgets if names or each in table.budgets]
            if show_reports(requests, outputs, Console()):
                shown = True
            elif names:
                print(f"{table.id}: no records yet. Type {command(table, [*table.budgets][-1])} first.")
    if not (names or shown):
        print(f"no table has records at {budget or 'any budget'} yet.")


def write_report(collected: Collected, folder: Path, with_figures: bool = True) -> tuple[Report, list[Path]]:
    """Write `FILES` and the figures; return the report and the paths of all files.

    with_figures: False leaves the figures as they were drawn before, since drawing takes most of the time.
    """
    if with_figures and collected.every:
        from highway.report.figures import draw  # matplotlib takes a second to import

        for figure in collected.table.figures:
            draw(figure, collected, folder)
    drawn = [figure for figure in collected.table.figures if (folder / f"{figure.id}.svg").exists()]
    report = build_report(collected, drawn)
    written = []
    for name, layout in FILES.items():
        if text := layout(report):
            write_text(folder / name, text, durable=False)  # it can be made again
            written.append(folder / name)
        else:
            (folder / name).unlink(missing_ok=True)
    return report, [*written, *(folder / f"{figure.id}.svg" for figure in drawn)]


class WholeWords(TableElement):
    """A table that breaks a long word at the end of a line, where rich would cut it off."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                for column in table.columns:
                    column.overflow = "fold"
            yield table


class ReportMarkdown(Markdown):
    elements = {**Markdown.elements, "table_open": WholeWords}


def print_report(report: Report, console: Console) -> None:
    console.print(ReportMarkdown(to_markdown(report), hyperlinks=False))


def show_reports(requests: Sequence[ReportRequest], outputs_dir: Path, console: Console) -> list[Report]:
    """Write and print the report of each table and budget that has records; return these reports.

    Overrides of the command line add extra rows, and the folder of the report is named after them.
    """
    reports = []
    for table, budget, overrides in requests:
        table = with_overrides(table, [budget], overrides)
        folder = outputs_dir / "report" / folder_of(table) / budget
        collected = collect(table, budget, outputs_dir)
        if collected.every:
            report, paths = write_report(collected, folder)
            reports.append(report)
            print_report(report, console)
            for path in paths:
                console.print(str(path), soft_wrap=True, markup=False, highlight=False)
    return reports
