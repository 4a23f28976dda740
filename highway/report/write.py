"""Print and write reports, at the end of a sweep or when a command asks for them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from highway.report.collect import collect, with_overrides
from highway.report.render import print_report, write_report
from highway.report.report import Report
from highway.sweep.grid import folder_name
from highway.sweep.table import ReportRequest


def show_reports(requests: Sequence[ReportRequest], outputs_dir: Path, console: Console) -> list[Report]:
    """Write and print the report of each table and budget that has records; return these reports.

    Overrides of the command line add extra rows, and the report goes into a folder that is named after them.
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
            print_report(report, console)
            for path in paths:
                console.print(str(path), soft_wrap=True, markup=False, highlight=False)
    return reports
