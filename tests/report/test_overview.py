"""The overview agrees with the records: it counts what the reports say, and measures as they do."""

import dataclasses
from pathlib import Path

import pytest

from highway.commands.report import main
from highway.report.collect import collect
from highway.report.formats import to_csv, to_markdown
from highway.report.overview import FEW, NOT_RUN, Overview, overview
from highway.report.report import build_report
from highway.report.sections import Grid
from highway.sweep.reading import load_table
from tests.support.tables import TABLE, put

pytestmark = pytest.mark.usefixtures("no_published_records")


def of(outputs: Path) -> Overview:
    tables = [TABLE, load_table("r_transformer_t2")]
    reports = [build_report(collect(TABLE, budget, outputs)) for budget in ("paper", "mini")]
    return overview(tables, [report for report in reports if report.collected.every])


def test_nothing_has_run(tmp_path: Path) -> None:
    found = of(tmp_path)
    assert len(found.counted) == 8 and len(found.measurements) == 12, "r_transformer_t2 copies four of its six numbers"
    assert found.words == {"within": 0, "outside": 0, "too wide": 0, FEW: 0, NOT_RUN: 8}
    assert not found.run and found.seeds == ""


def test_numbers_agree_with_the_report_and_the_records(tmp_path: Path) -> None:
    paper = TABLE.row("tanh").paper["test_bpc"]
    for seed, value in enumerate((-0.001, 0, 0.001), 1):
        put(tmp_path, "tanh", seed, paper + value)
        put(tmp_path, "baseline", seed, paper + value + 0.1)
    put(tmp_path, "sigmoid", 1, 1.4)
    put(tmp_path, "sigmoid", 1, 1.4, budget="mini")
    found = of(tmp_path)
    answers = build_report(collect(TABLE, "paper", tmp_path)).answers
    run = {(each.row.id, each.column.metric): each for each in found.run}
    assert {key: each.word for key, each in run.items() if each.word != FEW} == {
        key: answer.word for key, answer in answers.items()
    }
    assert sum(found.words.values()) == len(found.counted) == 8
    assert found.words[FEW] == 2 and found.words[NOT_RUN] == 2
    assert found.seeds == "4 with 3 seeds, 2 with 1 seed"
    ends = [100 * (each.ours / each.paper - 1) for each in run.values() if each.ours is not None]
    assert found.range == f"{min(ends):+.1f} % to {max(ends):+.1f} % (lower is better)"
    assert max(map(abs, ends)) <= 100 * found.limit, "every mean is on the axis"
    tanh = run["tanh", "test_bpc"]
    assert tanh.seeds == 3 and tanh.ours == pytest.approx(paper) and tanh.word == "within"
    assert run["baseline", "test_bpc"].word == "outside"
    for each in run.values():
        assert (each.interval is not None) == (each.seeds >= 3)
        if each.interval is not None:
            within = each.interval[0] <= 0 <= each.interval[1]
            assert within == (each.word == "within"), "the plot shows the rule of the word"
    assert found.orderings.total() == len(TABLE.claims), "the claims at mini, and none at paper"
    (shown,) = [block for block in found.section.blocks if isinstance(block, Grid)]
    cells = {str(row.cells[0]): [*map(str, row.cells[1:])] for row in shown.rows}
    assert len(cells) == len(run), "numbers that were run, and no others"
    column = tanh.column
    low, high = (column.text(paper * (1 + end)) for end in tanh.interval or ())
    expected = [column.text(paper), column.text(paper), f"{low} … {high}", "3", "within"]
    assert cells[f"{tanh.row.label}, {column.title}"] == expected and low < column.text(paper) < high


def test_a_report_without_a_table_says_what_is_reproduced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It prints the outcome of each table, then the numbers with their intervals; with a table, the whole report."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("highway.report.figures.draw", lambda figure, collected, folder: None)
    for module in ("highway.commands.report", "highway.site.build"):
        monkeypatch.setattr(f"{module}.table_ids", lambda: ["highway_t1", "highway_t2"])
    paper = TABLE.row("tanh").paper["test_bpc"]
    for seed in (1, 2, 3):
        put(tmp_path, "tanh", seed, paper + seed / 1000)

    def printed(*words: str) -> str:
        monkeypatch.setattr("sys.argv", ["highway report", *words])
        main()
        return capsys.readouterr().out

    monkeypatch.setenv("HIGHWAY_OUTPUTS", str(tmp_path))
    text = printed()
    assert text.index(f"{tmp_path}/report/highway_t1/paper/table.md") < text.index("Which numbers of the papers")
    assert "Claims of the paper" not in text and "highway_t2: no records yet" in text
    assert "2 of the papers' 12 numbers" in text and "95 % interval" in text
    whole = printed("highway_t1")
    assert "Claims of the paper" in whole and "Which numbers of the papers" not in whole


def test_a_run_that_has_not_learned_is_in_no_mean(tmp_path: Path) -> None:
    """The table, its CSV file, the answer and the overview have the mean of the same runs."""
    paper = TABLE.row("tanh").paper["test_bpc"]
    for seed, value in enumerate((-0.001, 0, 0.001), 1):
        put(tmp_path, "tanh", seed, paper + value)
    put(tmp_path, "tanh", 4, 5.0, metrics={"test_loss": {"best": 100.0, "last": 100.0}})
    put(tmp_path, "sigmoid", 1, 5.0, metrics={"test_loss": {"best": 100.0, "last": 100.0}})
    report = build_report(collect(TABLE, "paper", tmp_path))
    rows = {row.row.id: row for row in report.rows}
    cell = next(cell for cell in rows["tanh"].measured if cell.column.metric == "test_bpc")
    assert cell.ours is not None and (cell.ours.count, cell.ours.mean) == (3, pytest.approx(paper))
    assert str(cell.difference).startswith("+0.000, within: ")
    (line,) = (line for line in to_csv(report).splitlines() if ",tanh," in line and ",test_bpc,best," in line)
    assert line.split(",best,")[1].startswith("3,")
    each = next(each for each in of(tmp_path).run if (each.row.id, each.column.metric) == ("tanh", "test_bpc"))
    assert (each.seeds, each.ours) == (3, cell.ours.mean)
    alone = next(cell for cell in rows["sigmoid"].measured if cell.column.metric == "test_bpc")
    assert alone.ours is not None and alone.ours.mean == 5.0, "where none has learned, the mean is of all"
    assert "A run that has not learned is not in the mean of its row" in to_markdown(report)


def test_gates_are_counted_by_rows_at_the_largest_budget(tmp_path: Path) -> None:
    """By the seeds that a row shares with its baseline, which has no gate; smoke runs do not count."""
    assert of(tmp_path).gates is None
    for seed, value in enumerate((1.5, 1.6), 1):
        put(tmp_path, "baseline", seed, value)
        put(tmp_path, "baseline", seed, value, budget="mini")
    put(tmp_path, "sigmoid", 1, 1.4)
    put(tmp_path, "tanh", 2, 1.61)  # better than the mean of the baseline's seeds, if that counted
    put(tmp_path, "tanh", 2, 1.2, budget="mini")
    put(tmp_path, "highway", 7, 1.2)
    gates = of(tmp_path).gates
    assert gates is not None
    (grid,) = (block for block in gates.blocks if isinstance(block, Grid))
    assert [[str(cell) for cell in row.cells] for row in grid.rows] == [
        ["sdu sigmoid", "1", "1", "0"],
        ["sdu tanh", "1", "0", "1"],
    ]


def test_a_gate_whose_runs_fail_is_worse(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        put(tmp_path, "baseline", seed, 1.5)
        put(tmp_path, "tanh", seed, 1.4, status="diverged" if seed > 1 else "finished")
        put(tmp_path, "sigmoid", seed, 1.4, status="diverged")
    gates = of(tmp_path).gates
    assert gates is not None
    (grid,) = (block for block in gates.blocks if isinstance(block, Grid))
    assert [[str(cell) for cell in row.cells][1:] for row in grid.rows] == [["1", "0", "1"], ["1", "0", "1"]]


def test_claims_of_a_table_of_ones_own_are_no_claims_of_papers(tmp_path: Path) -> None:
    put(tmp_path, "baseline", 1, 1.5, budget="mini")
    own = dataclasses.replace(TABLE, paper="")
    assert overview([own], [build_report(collect(own, "mini", tmp_path))]).orderings.total() == 0
