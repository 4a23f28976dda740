"""Reports from records that the tests write: what they hold, and how they are rendered."""

import csv
import dataclasses
import html
import io
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from highway.files.seal import sealed
from highway.files.writing import read_json
from highway.ledger.directory import DONE, RunDirectory
from highway.ledger.record import write_record
from highway.report.collect import collect
from highway.report.formats import to_csv, to_latex, to_markdown
from highway.report.report import build_report
from highway.report.sections import (
    Grid,
    Head,
    Measured,
    Notes,
    Number,
    Paragraph,
    Picture,
    Section,
    grid,
)
from highway.report.terminal import print_report, print_sections
from highway.report.write import write_report
from highway.site.build import build_site
from highway.sweep.reading import load_table
from highway.sweep.table import Column
from tests.support.tables import XL, put

TABLE = load_table("highway_t1")
pytestmark = pytest.mark.usefixtures("no_published_records")


def plain(text: str) -> str:
    """Return the letters and digits of a rendering, whatever its layout."""
    return re.sub(r"[^A-Za-z0-9]+", " ", html.unescape(text))


def test_every_renderer_shows_every_section(tmp_path: Path) -> None:
    """Every renderer shows the sections in the same order, each with its sentences, heads, rows, notes and captions.

    Within a section the page has its own order: the main metric first, notes last; it drops empty columns.
    """
    for row in ("baseline", "tanh", "sigmoid_l3_6_as_released"):
        for seed in (1, 2):
            put(tmp_path, row, seed, 1.2 + seed / 100 + len(row) / 50, table=XL)
    table = dataclasses.replace(XL, also=TABLE.columns[:1], choices=("a first choice", "a second choice"))
    report = build_report(collect(table, "paper", tmp_path), XL.figures)
    keys = ["results", "also", "claims", "convergence", "differences", "figures", "choices", "origins"]
    assert [section.key for section in report.sections] == keys
    print_report(report, Console(file=(terminal := io.StringIO()), width=1000))
    (tmp_path / "report" / XL.id / "paper").mkdir(parents=True)
    for figure in report.figures:
        (tmp_path / "report" / XL.id / "paper" / f"{figure.id}.svg").touch()
    index = build_site(tmp_path, [report.collected.table])
    page = re.sub(r"<[^>]*>", " ", (index.parent / XL.id / "index.html").read_text())
    for text in map(plain, (terminal.getvalue(), to_markdown(report), page)):
        starts, position = [], 0
        for section in report.sections:
            position = text.index(plain(section.title), position)
            starts.append(position)
        for section, start, end in zip(report.sections, starts, [*starts[1:], len(text)], strict=True):
            expected = []
            for block in section.blocks:
                match block:
                    case Paragraph():
                        expected += [str(sentence[0]) for sentence in block.sentences]
                    case Grid():
                        columns = zip(block.heads, zip(*(row.cells for row in block.rows), strict=True), strict=True)
                        filled = [head.title for head, cells in columns if any(cell is not None for cell in cells)]
                        expected += [title for title in filled if title != "seeds"]  # not on the page
                        expected += [str(row.cells[0]) for row in block.rows]
                    case Notes():
                        expected += block.texts
                    case Picture():
                        expected.append(block.caption)
            for part in map(plain, expected):
                assert part in text[start:end], (section.key, part)
    grids = [block for section in report.sections for block in section.blocks if isinstance(block, Grid)]
    cells = [cell for grid in grids for row in grid.rows for cell in row.cells if isinstance(cell, Measured)]
    lines = list(csv.DictReader(io.StringIO(to_csv(report))))
    assert len(lines) == len(cells) == 5 * len(report.rows), "the CSV has every measured cell"
    paper = sorted(str(cell.paper) for cell in cells if cell.paper is not None)
    assert sorted(line["paper"] for line in lines if line["paper"]) == paper


def test_a_small_spread_is_not_rounded_to_none() -> None:
    shown = {deviation: str(Number(2.978, ".2f", deviation)) for deviation in (None, 0.0, 0.0043, 0.0052, 12.3)}
    assert list(shown.values()) == ["2.98", "2.98 ± 0.00", "2.98 ± 0.004", "2.98 ± 0.01", "2.98 ± 12.30"]


@pytest.mark.parametrize("width", [60, 200])
def test_no_word_of_a_grid_is_cut_off_on_a_terminal(width: int) -> None:
    heads = (Head("model"), Head("baseline"), Head("difference", numeric=True), Head("95 % interval", numeric=True))
    labels = ("R-Transformer, clipping that works", "Transformer, three rates by validation")
    made = grid((*heads, Head("in words")), [(*labels, Number(-0.15, "+.4f"), "-1.2453 … -0.9783", "these two differ")])
    console = Console(width=width, file=io.StringIO())
    with console.capture() as shown:
        print_sections([Section("compared", "", (made,))], console)
    text = shown.get()
    assert max(map(len, text.splitlines())) <= width
    words = {word for label in (*labels, *(head.title for head in heads), "these two differ") for word in label.split()}
    assert words - {"model"} <= set(text.replace(":", " ").replace(";", " ").split())
    assert "-1.2453 … -0.9783" in text and ("difference: -0.1500" in text) == (width == 60)


def test_a_missing_number_says_why(tmp_path: Path) -> None:
    columns = tuple(
        Column(metric, digits=3) for metric in ("test_bpc", "tokens_per_second", "train_seconds", "test_accuracy")
    )
    rows = (*TABLE.rows, dataclasses.replace(TABLE.rows[0], id="mini", budgets=("mini",)))
    table = dataclasses.replace(TABLE, columns=columns, also=(), rows=rows)
    put(tmp_path, "baseline", 1, 1.5, metrics={"train_seconds": {"best": 9.0, "last": 9.0}})
    put(tmp_path, "tanh", 1, 1.4, cost={"exclusive": False}, metrics={"train_seconds": {"best": 9.0, "last": 9.0}})
    put(tmp_path, "sigmoid", 1, 1.4, status="diverged")
    report = build_report(collect(table, "paper", tmp_path))
    reasons = {row.row.id: [cell.reason for cell in row.measured] for row in report.rows}
    assert reasons["baseline"] == ["", "", "", "not measured"]
    assert reasons["tanh"] == ["", "beside other work", "beside other work", "not measured"]
    assert reasons["sigmoid"] == ["diverged"] * 4 and reasons["mini"] == ["not at this budget"] * 4
    put(tmp_path, "highway", 1, 1.4)
    empty = build_report(collect(TABLE, "mini", tmp_path))
    assert {cell.reason for row in empty.rows for cell in row.measured} == {"not run"}
    for text in (to_markdown(report), to_latex(report)):
        assert all(reason in text for reason in ("diverged", "beside other work", "not measured"))


def test_a_grid_without_paper_shows_our_numbers_alone(tmp_path: Path) -> None:
    rows = tuple(dataclasses.replace(row, paper={}) for row in TABLE.rows)
    put(tmp_path, "baseline", 1, 1.5)
    report = build_report(collect(dataclasses.replace(TABLE, rows=rows, paper=""), "paper", tmp_path))
    assert "| model | seeds | eval loss | eval bpc | test loss | test bpc |" in to_markdown(report)
    assert "model & ours & ours & ours & ours \\\\\n" in to_latex(report) and "& paper" not in to_latex(report)


def test_written_files_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    for row, value in (("baseline", 1.5), ("tanh", 1.4)):
        put(tmp_path, row, 1, value)
        put(tmp_path, row, 2, value + 0.01)
    _, first = write_report(collect(TABLE, "paper", tmp_path), tmp_path / "first")
    _, second = write_report(collect(TABLE, "paper", tmp_path), tmp_path / "second")
    assert [path.name for path in first] == ["table.md", "table.csv", "table.tex", "convergence.svg", "convergence.png"]
    for path, again in zip(first, second, strict=True):
        assert path.read_bytes() == again.read_bytes()
    assert "T-L3" in (tmp_path / "first" / "convergence.svg").read_text()


def test_local_records_come_before_published_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = put(tmp_path / "published", "tanh", 1, 1.9)
    monkeypatch.setattr("highway.config.home.REFERENCE", tmp_path / "published")
    assert collect(TABLE, "paper", tmp_path / "mine").samples["tanh"][0].directory == published
    mine = put(tmp_path / "mine", "tanh", 1, 1.4)
    assert collect(TABLE, "paper", tmp_path / "mine").samples["tanh"][0].directory == mine


HOSTILE = "[/bold]<script>alert(1)</script> | \\input{x} $y$ *z* `w`"


def test_what_a_record_says_is_text_everywhere(tmp_path: Path) -> None:
    data = {"source": HOSTILE, "sha256": {"train": "a"}, "vocabulary_sha256": HOSTILE}
    environment = {"versions": {"torch": HOSTILE}, "precision": HOSTILE, "git_commit": HOSTILE}
    for row in ("tanh", "baseline"):
        put(tmp_path, row, 1, 1.4, data=data, environment=environment, cost={"device": HOSTILE})
    report, _ = write_report(collect(TABLE, "paper", tmp_path), tmp_path / "report")
    print_report(report, Console(file=(terminal := io.StringIO()), width=200))
    assert HOSTILE.split(" |")[0] in " ".join(terminal.getvalue().split())
    markdown = (tmp_path / "report" / "table.md").read_text()
    assert "<script>" not in markdown and "&lt;script&gt;" in markdown and "\\| \\\\input{x}" in markdown
    latex = "\n".join(line for line in to_latex(report).splitlines() if not line.startswith("%"))
    assert "\\textbackslash{}input\\{x\\} \\$y\\$" in latex and "<" not in latex and "\\input" not in latex


def test_rows_on_two_texts_are_no_full_data(tmp_path: Path) -> None:
    for row, text in (("baseline", "a"), ("tanh", "b")):
        put(tmp_path, row, 1, 1.4, data={"source": "files", "sha256": {"train": text}, "vocabulary_sha256": "v"})
    collected = collect(TABLE, "paper", tmp_path)
    assert "rows on different texts under one name, so they do not compare" in collected.caveat
    assert not collected.full_data


NEEDED = ("budget", "metrics", "data", "environment", "cost", "parameters")  # keys that a report reads


def test_a_wrong_record_is_named_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It counts as not finished, whoever asks, and it stops no report."""
    good, flipped, curveless, lacking, *keyless = (put(tmp_path, "tanh", seed, 1.4) for seed in range(4 + len(NEEDED)))
    for folder, key in zip(keyless, NEEDED, strict=True):
        result = json.loads((folder / "result.json").read_text())
        del result[key]
        (folder / "result.json").write_bytes(sealed(result))
    (flipped / "result.json").write_bytes(b"\xff\x00{")
    (curveless / "curves.csv").write_bytes(bytes(range(256)))
    result = json.loads((lacking / "result.json").read_text())
    del result["metrics"]["valid_bpc"]
    (lacking / "result.json").write_bytes(sealed(result))
    with caplog.at_level(logging.WARNING):
        report = build_report(collect(TABLE, "paper", tmp_path))
        build_report(collect(TABLE, "paper", tmp_path))
    assert next(str(line.seeds) for line in report.rows if line.row.id == "tanh") == "seed 0"
    messages = [record.getMessage() for record in caplog.records]
    sentences = {
        flipped: "result.json is corrupt",
        curveless: "curves.csv cannot be read",
        lacking: "metrics.valid_bpc is missing, but curves.csv has it",
        **{folder: f"result.json has no {key}" for folder, key in zip(keyless, NEEDED, strict=True)},
    }
    assert len(messages) == len(sentences), "each is named once"
    for folder, sentence in sentences.items():
        assert any(f"{folder}: " in line and sentence in line for line in messages), sentence
    assert [folder for folder in (good, flipped, *keyless) if RunDirectory(folder).status in DONE] == [good]


@pytest.mark.parametrize("other", [{"vocabulary_sha256": "other"}, {"sha256": {"train": "other"}}])
def test_rows_on_other_data_or_vocabularies_are_not_compared(tmp_path: Path, other: dict[str, Any]) -> None:
    """A report has no verdict, change or difference between seeds for them, and none on the test set."""
    same = {"source": "files", "sha256": {"train": "a"}, "vocabulary_sha256": "v", "counting_loss": 99.0}
    for seed in (1, 2, 3):
        put(tmp_path, "baseline", seed, 1.5 + seed / 1000)
        put(tmp_path, "sigmoid", seed, 1.4 + seed / 1000)
        put(tmp_path, "tanh", seed, 1.2 + seed / 1000, data={**same, **other})
    report = build_report(collect(TABLE, "paper", tmp_path))
    words = {verdict.word for verdict in report.verdicts if "tanh" in (*verdict.claim.rows, *verdict.claim.than)}
    assert words == {"not comparable"}
    assert [difference.row.id for difference in report.differences] == ["sigmoid"]
    changes = {row.row.id: row.measured[3].change for row in report.rows}
    assert changes["sigmoid"] is not None and changes["tanh"] is None


def test_a_record_with_few_metrics_stops_nothing(tmp_path: Path) -> None:
    """A record may have the test loss and a curve of training alone."""
    for seed in (1, 2, 3):
        put(tmp_path, "baseline", seed, 1.5)
        folder = put(tmp_path, "tanh", seed, 1.4)
        (folder / "curves.csv").write_text("step,epoch,seconds,tokens,split,metric,value\n100,1,1,25,train,loss,1.4\n")
        result = read_json(folder / "result.json")
        write_record(folder, {**result, "metrics": {"test_loss": {"best": 1.0, "last": 1.0}}})
    report, _ = write_report(collect(TABLE, "paper", tmp_path), tmp_path / "report")
    tanh = next(row for row in report.rows if row.row.id == "tanh")
    assert str(tanh.seeds) == "seeds 1, 2, 3" and [str(cell.our_cell) for cell in tanh.measured][3] == "not measured"
    words = {verdict.claim.text: verdict.word for verdict in report.verdicts if "tanh" in verdict.claim.rows}
    assert set(words.values()) <= {"not run", "undecided"}, words
    assert "+ tanh SDU" in build_site(tmp_path, [TABLE]).read_text() or report.rows
