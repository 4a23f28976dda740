"""The published reports are what today's code makes of the published records, and README says what they say."""

import re
from pathlib import Path

import pytest

from highway.config.home import HOME, REFERENCE
from highway.report.collect import collect
from highway.report.details import AT_SIZE, readings
from highway.report.evidence import tone
from highway.report.finding import filled
from highway.report.overview import overview
from highway.report.render import first_sentence
from highway.report.report import build_report
from highway.report.write import FILES
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


def test_readme_tells_the_outcome(tmp_path: Path) -> None:
    """Its first paragraphs have the sentence of the overview, three findings, and what a table costs."""
    tables = [load_table(name) for name in table_ids()]
    collected = [collect(load_table(folder.parent.name), folder.name, tmp_path) for folder in FOLDERS]
    found = overview(tables, [build_report(each) for each in collected])
    readme = " ".join((HOME / "README.md").read_text().split())
    assert all(sentence in readme for sentence in found.sentences[:2])
    assert ("None of their numbers is reproduced yet" in readme) == (found.counts["within"] == 0)
    for paper in ("Highway Transformer", "R-Transformer", "Highway State Gating"):
        assert first_sentence(found.largest[paper].conclusion) in readme
    claims = found.largest["R-Transformer"].claims
    assert claims is not None
    decided = [f"{text} is {word}" for text, word, _ in (line.texts for line in claims.lines) if tone(word) != "open"]
    assert all(sentence in readme for sentence in decided)
    assert bool(decided) != ("No claim on music is decided" in readme)
    for table, text in (
        ("highway_t3", "the {} runs of `highway_t3` took {:.1f} hours of an H200 together"),
        ("r_transformer_t2", "the {} of `r_transformer_t2` {:.0f} hours of one core"),
    ):
        (at_paper,) = (each for each in collected if (each.table.id, each.budget) == (table, "paper"))
        runs = [sample for row in at_paper.table.rows if not row.extra for sample in at_paper.samples[row.id]]
        assert text.format(len(runs), sum(run.result["cost"]["seconds"] for run in runs) / 3600) in readme
