"""The published reports are what today's code makes of the published records."""

import csv
import re
from pathlib import Path

import pytest

from highway.config.home import REFERENCE
from highway.report.collect import collect
from highway.report.formats import to_csv, to_latex, to_markdown
from highway.report.report import build_report
from highway.sweep.reading import load_table

FOLDERS = sorted(path.parent for path in (REFERENCE / "report").glob("*/*/table.md"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_a_published_report_is_up_to_date(folder: Path, tmp_path: Path) -> None:
    table = load_table(folder.parent.name)
    collected = collect(table, folder.name, tmp_path)
    report = build_report(collected, collected.table.figures)
    for name, text in (
        ("table.md", to_markdown(report)),
        ("table.csv", to_csv(report)),
        ("table.tex", to_latex(report)),
    ):
        mend = f"run HIGHWAY_OUTPUTS=EMPTY_FOLDER highway report {table.id} and copy {name} to {folder}"
        assert (folder / name).read_text() == text, mend
    shown = re.findall(r"!\[[^]]*\]\(([^)]*)\)", (folder / "table.md").read_text())
    assert [name for name in shown if not (folder / name).exists()] == [], "figures that are not committed"


def test_no_cell_of_the_csv_is_a_formula(tmp_path: Path) -> None:
    """A spreadsheet computes a cell that begins with one of these; numbers may."""
    text = to_csv(build_report(collect(load_table("highway_t3"), "mini", tmp_path)))
    cells = [cell for line in csv.reader(text.splitlines()) for cell in line]
    assert "'+ tanh SDU" in cells
    assert not [cell for cell in cells if re.match(r"[=+@-](?!\d)", cell)]
