"""The published reports are what today's code makes of the published records, and README says what they say."""

import re
from pathlib import Path

import pytest

from highway.cards.papers import PAPERS
from highway.config.home import HOME, REFERENCE
from highway.report.collect import collect
from highway.report.content import Report, build_report
from highway.report.details import AT_SIZE, readings
from highway.report.finding import filled
from highway.report.forest import forest_of_tables
from highway.report.overview import overview
from highway.report.write import FILES
from highway.tables.reading import load_table, table_ids

REPORTS = REFERENCE / "report"
FOLDERS = sorted(path.parent for path in REPORTS.glob("*/*/table.md"))
MOST_WORDS = 400  # what is read in two minutes
MOST_DECIMALS = 10  # numbers before README's first command


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_a_published_report_is_up_to_date_and_short(folder: Path, tmp_path: Path) -> None:
    table = load_table(folder.parent.name)
    collected = collect(table, folder.name, tmp_path)
    report = build_report(collected, collected.table.figures)
    for name, layout in FILES.items():
        mend = f"run HIGHWAY_OUTPUTS=EMPTY_FOLDER highway report {table.id} and copy {name} to {folder}"
        text = layout(report)
        assert (folder / name).read_text() == text if text else not (folder / name).exists(), mend
    text = (folder / "table.md").read_text()
    assert len(text.split()) <= MOST_WORDS
    shown = re.findall(r"!\[[^]]*\]\(([^)]*)\)", text)
    assert [name for name in shown if not (folder / name).exists()] == [], "figures that are not committed"
    finding = table.finding.get(folder.name, "")
    assert not finding or filled(finding, collected, report.differences), "every number of the finding has a run"


def test_published_runs_are_known_by_a_relative_path_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """`highway publish --to outputs/reference` writes the same report as without `--to`."""
    monkeypatch.chdir(HOME)
    collected = collect(load_table("highway_t3"), "mini", REFERENCE.relative_to(HOME))
    assert collected.every and collected.as_published


def test_the_page_of_table_3_has_each_reading_that_was_tried(tmp_path: Path) -> None:
    page = (HOME / "docs" / "papers" / "highway_transformer.md").read_text()
    for budget in AT_SIZE:
        for line in readings(collect(load_table("highway_t3"), budget, tmp_path)).lines:
            assert f"| {' | '.join(line.texts)} |" in page


@pytest.fixture(scope="module")
def reports() -> list[list[Report]]:
    """Return the published reports by table, in the order of its budgets."""
    tables = map(load_table, table_ids())
    at_budgets = [[(table, name) for name in table.budgets if REPORTS / table.id / name in FOLDERS] for table in tables]
    return [[build_report(collect(*each, Path("no outputs"))) for each in of_table] for of_table in at_budgets]


def test_readme_and_the_papers_pages_begin_with_the_outcome(reports: list[list[Report]]) -> None:
    """Both have the line of each paper; README also the overview, and what a table costs."""
    every = [report for of_table in reports for report in of_table]
    found = overview([load_table(name) for name in table_ids()], every)
    readme = (HOME / "README.md").read_text()
    assert [outcome.paper for outcome in found.outcomes] == [*PAPERS]
    for outcome in found.outcomes:
        line = f"| {outcome.message} | {outcome.found} | {outcome.sure} |"
        page = re.search(rf"\[{outcome.paper}\]\((docs/papers/\w+\.md)\).* {re.escape(line)}", readme)
        assert page, f"README lacks: {line}"
        assert line in (HOME / page[1]).read_text().partition("\n## ")[0], f"{page[1]} does not begin with: {line}"
    beginning = readme.partition("```bash")[0]
    words = " ".join(beginning.split())
    assert all(sentence in words for sentence in found.sentences[:2])
    assert ("None of the papers' numbers is reproduced yet" in words) == (found.paper_verdicts["within"] == 0)
    assert len(re.findall(r"\d\.\d", beginning)) <= MOST_DECIMALS
    for table, text in (
        ("highway_t3", "the {} runs of `highway_t3` took {:.1f} hours of an H200 together"),
        ("r_transformer_t2", "the {} of `r_transformer_t2` {:.0f} hours of one core"),
    ):
        (at_paper,) = (
            each.collected for each in every if (each.collected.table.id, each.collected.budget) == (table, "paper")
        )
        runs = [sample for row in at_paper.table.rows if not row.extra for sample in at_paper.samples[row.id]]
        assert text.format(len(runs), sum(run.result["cost"]["seconds"] for run in runs) / 3600) in readme


def test_the_published_plot_is_up_to_date(reports: list[list[Report]]) -> None:
    plot = REPORTS / "effects.svg"
    mend = f"run HIGHWAY_OUTPUTS=EMPTY_FOLDER highway report and copy effects.svg to {plot}"
    assert plot.read_text() == forest_of_tables(reports), mend
