"""The published reports are what today's code makes of the published records, and README says what they say."""

import re
from pathlib import Path

import pytest

from highway.config.home import HOME, REFERENCE
from highway.report.collect import collect
from highway.report.finding import filled
from highway.report.overview import overview
from highway.report.render import FILES
from highway.report.report import build_report
from highway.sweep.reading import load_table, table_ids

FOLDERS = sorted(path.parent for path in (REFERENCE / "report").glob("*/*/table.md"))
MOST_WORDS = 400  # what is read in two minutes


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_a_published_report_is_up_to_date_and_short(folder: Path, tmp_path: Path) -> None:
    table = load_table(folder.parent.name)
    collected = collect(table, folder.name, tmp_path)
    report = build_report(collected, collected.table.figures)
    for name, layout in FILES.items():
        mend = f"run HIGHWAY_OUTPUTS=EMPTY_FOLDER highway report {table.id} and copy {name} to {folder}"
        assert (folder / name).read_text() == layout(report), mend
    text = (folder / "table.md").read_text()
    assert len(text.split()) <= MOST_WORDS
    shown = re.findall(r"!\[[^]]*\]\(([^)]*)\)", text)
    assert [name for name in shown if not (folder / name).exists()] == [], "figures that are not committed"
    finding = table.finding.get(folder.name, "")
    assert not finding or filled(finding, collected, report.differences), "every number of the finding has a run"


def test_readme_tells_the_outcome(tmp_path: Path) -> None:
    """Its first paragraphs have the sentence of the overview, and the first sentence of three findings."""
    tables = [load_table(name) for name in table_ids()]
    collected = [collect(load_table(folder.parent.name), folder.name, tmp_path) for folder in FOLDERS]
    found = overview(tables, [build_report(each) for each in collected])
    readme = " ".join((HOME / "README.md").read_text().split())
    assert found.sentences[0] in readme
