"""The overview agrees with the reports, and counts the papers' tables alone."""

import dataclasses
from collections import Counter
from pathlib import Path

import pytest

from highway.cli import main
from highway.ledger.files import write_text
from highway.report.collect import collect
from highway.report.content import build_report
from highway.report.overview import Overview, overview
from highway.report.render import first_sentence
from highway.tables.reading import load_table
from highway.tables.table import Table
from tests.support.tables import TABLE, put

pytestmark = pytest.mark.usefixtures("no_published_records")
TABLES = (TABLE, load_table("r_transformer_t2"))


def of(outputs: Path, tables: tuple[Table, ...] = TABLES) -> Overview:
    return overview(tables, [build_report(collect(TABLE, budget, outputs)) for budget in ("paper", "mini")])


def test_nothing_has_run(tmp_path: Path) -> None:
    found = of(tmp_path)
    assert found.total == 5, "three numbers, and two of six: r_transformer_t2 copies four"
    assert (found.tried, found.paper_verdicts.total(), found.outcomes) == (0, 0, ())
    assert found.missing == "Not run: highway_t1, r_transformer_t2."


def test_numbers_are_those_of_the_reports(tmp_path: Path) -> None:
    paper = TABLE.row("tanh").paper["test_bpc"]
    for seed, value in enumerate((-0.001, 0, 0.001), 1):
        put(tmp_path, "tanh", seed, paper + value)
        put(tmp_path, "baseline", seed, paper + value + 0.1)
    put(tmp_path, "sigmoid", 1, 1.4)
    put(tmp_path, "sigmoid", 1, 1.4, budget="mini")
    found = of(tmp_path)
    words = [verdict.word for verdict in build_report(collect(TABLE, "paper", tmp_path)).paper_verdicts.values()]
    assert found.tried == 3 and found.paper_verdicts == Counter(words)
    assert found.paper_verdicts["within"] == 1 and found.paper_verdicts["outside"] == 1
    assert found.sentences[0] == (
        "3 of the papers' 5 numbers have been tried at the paper's own size: 1 within (where one more run of ours "
        "would fall, or up to 1 % from our mean), 1 outside, 0 in an interval too wide to tell, "
        "1 without 3 runs that learned."
    )
    (outcome,) = found.outcomes
    assert (outcome.paper, outcome.report.collected.budget) == ("Highway Transformer", "paper")
    assert outcome.found == first_sentence(outcome.report.conclusion)
    assert found.missing == "Not run: r_transformer_t2."


def test_tables_of_ones_own_are_not_counted(tmp_path: Path) -> None:
    """Also if they name a paper: their claims are no claims of the four."""
    for seed, row in ((1, "baseline"), (2, "baseline"), (1, "tanh")):
        put(tmp_path, row, seed, 1.5, budget="mini")
    assert of(tmp_path).claims["mini"].total() == 0, "a claim on a row with one run was not tested"
    put(tmp_path, "tanh", 2, 1.4, budget="mini")
    assert of(tmp_path).claims["mini"].total() > 0
    for own in (TABLE.model_copy(update={"paper": ""}), TABLE.model_copy(update={"id": "mine"})):
        found = overview([own], [build_report(dataclasses.replace(collect(TABLE, "mini", tmp_path), table=own))])
        assert (found.total, found.claims["mini"].total(), found.outcomes) == (0, 0, ())


@pytest.mark.parametrize(
    ("budget", "baseline", "tanh", "words"),
    [
        ("paper", (1.49, 1.50, 1.51), (1.40, 1.41, 1.42), "At the paper's size, 3 runs a row: supported."),
        ("paper", (1.49, 1.50, 1.51), (1.40, 1.60, 1.50), "At the paper's size, 3 runs a row: not decided yet."),
        ("paper", (1.49, 1.50, 1.51), (1.40,), "At the paper's size, 1 to 3 runs a row: not tested."),
        (
            *("paper", (2.49, 2.50, 2.51), (1.40, 1.41, 1.42)),
            "At the paper's size, 3 runs a row: decided for our models only, whose baseline misses the paper's number.",
        ),
        (
            *("mini", (1.49, 1.50, 1.51), (1.60, 1.61, 1.62)),
            "Smaller or shorter (mini), 3 runs a row: decided for this size and these data only.",
        ),
        ("mini", (), (1.4,), "Smaller or shorter (mini), 0 to 1 runs a row: not tested."),
    ],
)
def test_how_sure_a_finding_is(
    tmp_path: Path, budget: str, baseline: tuple[float, ...], tanh: tuple[float, ...], words: str
) -> None:
    """It speaks of the first claim."""
    for row, values in (("baseline", baseline), ("tanh", tanh)):
        for seed, value in enumerate(values, 1):
            put(tmp_path, row, seed, value, budget)
    (outcome,) = of(tmp_path).outcomes
    assert outcome.sure == words


def test_the_report_with_most_runs_at_the_largest_budget_stands_for_a_paper(tmp_path: Path) -> None:
    other = load_table("highway_t2")
    put(tmp_path, "tanh", 1, 1.4, "mini")
    for row in ("tanh", "sigmoid"):
        put(tmp_path, row, 1, 1.4, "mini", table=other)
    reports = [build_report(collect(table, "mini", tmp_path)) for table in (TABLE, other)]
    assert [outcome.report for outcome in overview([TABLE, other], reports).outcomes] == [reports[1]]
    without = build_report(collect(TABLE.model_copy(update={"claims": []}), "mini", tmp_path))
    assert overview([TABLE], [without]).outcomes == ()


def test_the_first_sentence_ends_where_the_next_one_begins() -> None:
    assert first_sentence("It has 2.4 (n = 3). The paper has 2.") == "It has 2.4 (n = 3)."


def test_a_report_without_a_table_says_what_each_has_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr("highway.report.figures.draw", lambda figure, collected, folder: figure.id)
    monkeypatch.setattr("highway.report.site.table_ids", lambda: ["highway_t1", "highway_t2"])
    paper = TABLE.row("tanh").paper["test_bpc"]
    for seed in (1, 2, 3):
        put(tmp_path, "tanh", seed, paper + seed / 1000)

    def printed(*words: str) -> str:
        monkeypatch.setattr("sys.argv", ["highway", "report", *words])
        main()
        return capsys.readouterr().out

    monkeypatch.setenv("HIGHWAY_OUTPUTS", str(tmp_path))
    text = printed()
    assert "highway_t1 paper: Nothing is decided." in text and "Claims" not in text
    assert "1 of the papers' 6 numbers" in text and "Not run: highway_t2." in text
    assert (tmp_path / "report" / "highway_t1" / "paper" / "table.md").exists()
    whole = printed("highway_t1")
    assert "Without a verdict: 7 claims (not run)." in whole and "of the papers'" not in whole
    assert "highway_t2: no records yet. Type highway train -m table=highway_t2" in printed("highway_t2")
    write_text(tmp_path / "grids" / "broken" / "table.yaml", "id: broken\n")
    assert "T-L3" in printed("--budget", "paper"), "a grid that cannot be read stops no report"
