"""Writes and prints reports, at the end of a sweep or when a command asks for them."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from highway.files.writing import write_text
from highway.report.collect import Collected, collect, with_overrides
from highway.report.formats import to_csv, to_latex, to_markdown
from highway.report.report import Report, build_report
from highway.report.terminal import print_report
from highway.sweep.table import ReportRequest


def write_report(collected: Collected, folder: Path) -> tuple[Report, list[Path]]:
    """Write table.md, table.csv, table.tex and the figures; return the report and the paths of all files."""
    from highway.report.figures import draw  # matplotlib takes a second to import

    figures = collected.table.figures if collected.every else ()
    names = [draw(figure, collected, folder) for figure in figures]
    report = build_report(collected, figures)
    texts = {"table.md": to_markdown(report), "table.csv": to_csv(report), "table.tex": to_latex(report)}
    for name, text in texts.items():
        write_text(folder / name, text)
    files = [*texts, *(f"{name}.{ending}" for name in names for ending in ("svg", "png"))]
    return report, [folder / name for name in files]


def publish(requests: Sequence[ReportRequest], outputs_dir: Path, console: Console) -> int:
    """Write and print the report of each table and budget that has records; return how many have.

    Overrides of the command line add extra rows, and the report goes into a folder that is named after them.
    """
    count = 0
    for table, budget, overrides in requests:
        folder = outputs_dir / "report" / table.id / budget
        table = with_overrides(table, [budget], overrides)
        if overrides:
            folder /= re.sub(r"[^\w.=,+-]+", "_", " ".join(("with", *overrides)))
        collected = replace(collect(table, budget, outputs_dir), only_run=bool(overrides))
        if collected.every:
            count += 1
            report, paths = write_report(collected, folder)
            print_report(report, console)
            for path in paths:
                console.print(str(path), soft_wrap=True, markup=False, highlight=False)
    return count
