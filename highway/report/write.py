"""Writes and prints reports, at the end of a sweep or when a command asks for them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from highway.files.writing import write_text
from highway.report.collect import Collected, collect, with_overrides
from highway.report.formats import TEXTS
from highway.report.report import Report, build_report
from highway.report.terminal import print_outcome, print_report
from highway.sweep.grid import folder_name
from highway.sweep.table import ReportRequest

ENDINGS = ("svg", "png")


def write_report(collected: Collected, folder: Path) -> tuple[Report, list[Path]]:
    """Write `TEXTS` and the figures; return the report and the paths of all files."""
    from highway.report.figures import draw  # matplotlib takes a second to import

    figures = collected.table.figures if collected.every else ()
    names = [draw(figure, collected, folder) for figure in figures]
    report = build_report(collected, figures)
    for name, layout in TEXTS.items():
        write_text(folder / name, layout(report))
    files = [*TEXTS, *(f"{name}.{ending}" for name in names for ending in ENDINGS)]
    return report, [folder / name for name in files]


def show_reports(
    requests: Sequence[ReportRequest], outputs_dir: Path, console: Console, brief: bool = False
) -> list[Report]:
    """Write and print the report of each table and budget that has records; return these reports.

    Overrides of the command line add extra rows, and the report goes into a folder that is named after them.
    brief: print only what came out, and where the report is.
    """
    reports = []
    for table, budget, overrides in requests:
        folder = outputs_dir / "report" / table.id / budget
        table = with_overrides(table, [budget], overrides)
        if overrides:
            folder /= folder_name(" ".join(("with", *overrides)))
        collected = replace(collect(table, budget, outputs_dir), only_run=bool(overrides))
        if collected.every:
            report, paths = write_report(collected, folder)
            reports.append(report)
            if brief:
                print_outcome(report, console)
            else:
                print_report(report, console)
            for path in paths[:1] if brief else paths:
                console.print(str(path), soft_wrap=True, markup=False, highlight=False)
    return reports
