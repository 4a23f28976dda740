"""Everything that a report of one table at one budget writes."""

from pathlib import Path

from highway.ledger.files import write_text
from highway.report.collect import Collected
from highway.report.render import Report, build_report
from highway.report.texts import to_csv, to_latex, to_markdown


def write_report(collected: Collected, folder: Path) -> tuple[Report, list[Path]]:
    """table.md, table.csv, table.tex and the figures; the report, and the paths of what was written."""
    from highway.report.figures import draw  # matplotlib takes a second to import

    report = build_report(collected)
    figures = collected.table.figures if collected.every else ()
    drawn = [draw(figure, collected, folder) for figure in figures]
    for name, text in (
        ("table.md", to_markdown(report, figures)),
        ("table.csv", to_csv(report)),
        ("table.tex", to_latex(report)),
    ):
        write_text(folder / name, text)
    names = ["table.md", "table.csv", "table.tex", *(f"{name}.{ending}" for name in drawn for ending in ("svg", "png"))]
    return report, [folder / name for name in names]
