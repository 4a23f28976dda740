"""Reports from records that the tests write: statistics, verdicts, renderings, figures."""

import csv
import dataclasses
import html
import io
import json
import logging
import math
import re
import statistics
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from highway.files.seal import sealed
from highway.files.writing import read_json
from highway.ledger.directory import DONE, RunDirectory
from highway.ledger.record import write_record
from highway.report import figures
from highway.report.bias_figures import t_sne
from highway.report.collect import collect, with_overrides
from highway.report.convergence import mean_difference
from highway.report.curves import Point, read_curves
from highway.report.figures import DRAWN, band
from highway.report.formats import to_csv, to_latex, to_markdown
from highway.report.report import Report, build_report
from highway.report.sample import Sample
from highway.report.sections import (
    Block,
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
from highway.report.statistics import kendall_tau, summarise, tau_by_chance
from highway.report.style import looks
from highway.report.terminal import print_report, print_sections
from highway.report.write import write_report
from highway.site.build import build_site
from highway.sweep.reading import load_table
from highway.sweep.table import Column
from tests.support.tables import TRANSLATION, XL, put, put_translation

TABLE = load_table("highway_t1")
pytestmark = pytest.mark.usefixtures("no_published_records")


def blocks(report: Report, key: str) -> tuple[Block, ...]:
    """Return the blocks of the section with this key."""
    return next(section.blocks for section in report.sections if section.key == key)


def verdict(outputs: Path, text: str, budget: str = "paper") -> str:
    return {v.claim.text: v.word for v in build_report(collect(TABLE, budget, outputs)).verdicts}[text]


def test_diverged_cells_are_shown_and_not_counted(tmp_path: Path) -> None:
    put(tmp_path, "tanh", 1, 1.4)
    put(tmp_path, "tanh", 2, math.nan, status="diverged")
    line = build_report(collect(TABLE, "paper", tmp_path)).rows[2]
    assert str(line.seeds) == "seed 1, seed 2 diverged"
    assert line.measured[3].our_number.text() == "1.400"


def test_statistics() -> None:
    values = [1.0, 1.5, 2.5]
    summary = summarise(values)
    assert summary is not None
    assert (summary.mean, summary.deviation) == (pytest.approx(5 / 3), pytest.approx(statistics.stdev(values)))
    assert summarise([2.0]).deviation is None  # type: ignore[union-attr]


def test_renderings(tmp_path: Path) -> None:
    for seed, (ours, base) in enumerate([(1.40, 1.5), (1.42, 1.5)], 1):
        put(tmp_path, "tanh", seed, ours)
        put(tmp_path, "baseline", seed, base)
    put(tmp_path, "highway", 1, 1.3)
    report = build_report(collect(TABLE, "paper", tmp_path), TABLE.figures)
    assert [line.row.id for line in report.rows] == ["baseline", "sigmoid", "tanh", "highway"]  # extra rows with runs
    markdown = to_markdown(report)
    assert "| + tanh SDU | seeds 1, 2 |" in markdown
    assert "| 1.410 ± 0.014 | 1.364 | +0.046 |" in markdown
    assert "Budget paper; full data" in markdown
    assert "## Extra rows (not in the paper)" in markdown
    assert f"and what we chose\n\n- {TABLE.choices[0]}\n- " in markdown
    assert f"![convergence](convergence.svg)\n\n*{TABLE.figures[0].caption}.*" in markdown
    rows = {(row["row"], row["metric"]): row for row in csv.DictReader(io.StringIO(to_csv(report)))}
    assert float(rows["tanh", "test_bpc"]["mean"]) == pytest.approx(1.41)
    assert rows["sigmoid", "test_bpc"]["mean"] == ""
    assert float(rows["sigmoid", "test_bpc"]["paper"]) == 1.371
    latex = to_latex(report)
    assert "$1.410 \\pm 0.014$ & 1.364 \\\\" in latex
    assert latex.count("&") == 1 * 4 + 8 + 8 * 4


def whole_report(outputs: Path) -> Report:
    """Return a report of highway_t5 with every section but that of translations."""
    for row in ("baseline", "tanh", "sigmoid_l3_6_as_released"):
        for seed in (1, 2):
            put(outputs, row, seed, 1.2 + seed / 100 + len(row) / 50, table=XL)
    table = dataclasses.replace(XL, also=TABLE.columns[:1], choices=("a first choice", "a second choice"))
    return build_report(collect(table, "paper", outputs), XL.figures)


def plain(text: str) -> str:
    """Return the letters and digits of a rendering, whatever its layout."""
    return re.sub(r"[^A-Za-z0-9]+", " ", html.unescape(text))


def test_every_renderer_shows_every_section(tmp_path: Path) -> None:
    """Every renderer shows the sections in the same order, each with its sentences, heads, rows, notes and captions.

    Within a section the page has its own order: the main metric first, notes last; it drops empty columns.
    """
    report = whole_report(tmp_path)
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


def test_a_csv_has_every_measured_cell(tmp_path: Path) -> None:
    report = whole_report(tmp_path)
    grids = [block for section in report.sections for block in section.blocks if isinstance(block, Grid)]
    cells = [cell for grid in grids for row in grid.rows for cell in row.cells if isinstance(cell, Measured)]
    lines = list(csv.DictReader(io.StringIO(to_csv(report))))
    assert len(lines) == len(cells) == 5 * len(report.rows)
    paper = sorted(str(cell.paper) for cell in cells if cell.paper is not None)
    assert sorted(line["paper"] for line in lines if line["paper"]) == paper


def test_dashes_and_spreads_are_explained_where_they_occur(tmp_path: Path) -> None:
    for row in ("baseline", "sigmoid", "tanh"):
        put(tmp_path, row, 1, 1.4)
    text = to_markdown(build_report(collect(TABLE, "paper", tmp_path)))
    assert "A dash" not in text and "—" not in text and "±" not in text
    put(tmp_path, "highway", 1, 1.4)  # an extra row, for which the paper has no number
    put(tmp_path, "tanh", 2, 1.5)
    text = to_markdown(build_report(collect(TABLE, "paper", tmp_path)))
    assert "A dash (—): the paper gives no number." in text and "after ± is" in text


@pytest.mark.parametrize("width", [80, 120])
def test_labels_stay_on_a_terminal_beside_many_metrics(width: int) -> None:
    report = build_report(collect(TRANSLATION, "mini", Path("none")))
    console = Console(width=width, file=io.StringIO())
    with console.capture() as shown:
        print_report(report, console)
    text = shown.get()
    assert max(map(len, text.splitlines())) <= width
    for row in report.rows:
        assert row.row.label.split(",")[0] + ", " in text and row.measured[-1].column.title in text


def test_a_small_spread_is_not_rounded_to_none() -> None:
    shown = {deviation: str(Number(2.978, ".2f", deviation)) for deviation in (None, 0.0, 0.0043, 0.0052, 12.3)}
    assert list(shown.values()) == ["2.98", "2.98 ± 0.00", "2.98 ± 0.004", "2.98 ± 0.01", "2.98 ± 12.30"]


def test_choices_and_budgets_are_told_apart(tmp_path: Path) -> None:
    """The choices are those of the recipe; at a smaller budget the report says that some do not hold."""
    four = load_table("r_transformer_t4")
    pages = {budget: to_markdown(build_report(collect(four, budget, tmp_path))) for budget in ("mini", "paper")}
    assert "These are the choices at paper budget." in pages["mini"] and "These are" not in pages["paper"]
    assert "All rows have further overrides" in pages["mini"]


@pytest.mark.parametrize("width", [60, 80, 200])
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


# Tables of many rows


def test_the_rest_are_the_other_rows_of_the_paper() -> None:
    claim = next(claim for claim in XL.claims if claim.text.startswith("sigmoid SDU on all layers is the best"))
    assert set(claim.than) == {row.id for row in XL.rows if not row.extra} - {"sigmoid"}


@pytest.mark.parametrize(
    ("ours", "papers", "tau"),
    [
        ([1, 2, 3, 4], [5, 6, 7, 8], 1.0),
        ([1, 2, 3, 4], [8, 7, 6, 5], -1.0),
        ([1, 2, 3, 4], [1, 2, 4, 3], 4 / 6),
        ([1, 2, 3], [1, 1, 2], 2 / math.sqrt(3 * 2)),  # tau-b, with a tie
        ([1, 1], [1, 2], None),
    ],
)
def test_kendalls_tau(ours: list[float], papers: list[float], tau: float | None) -> None:
    assert kendall_tau(ours, papers) == (None if tau is None else pytest.approx(tau))


def test_how_far_apart_curves_lie() -> None:
    def curve(*points: tuple[float, float]) -> list[Point]:
        return [Point(step, 0, value, 0, 0) for step, value in points]

    reference = curve((0, 3), (10, 2), (30, 2))
    assert mean_difference(reference, reference) == 0
    assert mean_difference(curve((0, 4), (10, 3), (20, 9), (30, 3)), reference) == 1  # only one curve has step 20
    assert mean_difference(curve((0, 3), (10, 3), (30, 3)), reference) == pytest.approx((10 * 0.5 + 20 * 1) / 30)
    assert mean_difference(curve((5, 3)), reference) is None


def test_one_colour_a_gate_in_every_table(tmp_path: Path) -> None:
    colours: dict[str, set[str]] = {}
    for table_id in ("highway_t1", "highway_t4", "highway_t5", "highway_t6", "highway_t7", "hsg_t1", "gated_resnet_t1"):
        collected = collect(load_table(table_id), "paper", tmp_path)
        row_looks = looks(collected)
        assert len(set(row_looks.values())) == len(collected.table.rows)  # no two rows look alike
        for row_id in ("baseline", "tanh", "sigmoid", "highway", "gated_mhdpa"):
            if row_id in row_looks:
                colours.setdefault(row_id, set()).add(row_looks[row_id].colour)
    assert all(len(of_gate) == 1 for of_gate in colours.values())
    assert len(set.union(*colours.values())) == 5


def test_a_seed_that_diverged_leaves_the_figure_to_the_others(tmp_path: Path) -> None:
    """The diverged seed ended in its first epoch, so it shares no step with the other seed's epochs."""
    put(tmp_path, "tanh", 1, 1.4, curve=[(step, 2 - step / 1000) for step in range(10, 400, 10)])
    put(tmp_path, "tanh", 2, 1.4, curve=[(5, 9.0)], status="diverged")
    _, paths = write_report(collect(TABLE, "paper", tmp_path), tmp_path / "report")
    assert all(path.exists() for path in paths)


def test_a_row_that_has_not_learned_does_not_squeeze_the_others(tmp_path: Path) -> None:
    data = {"source": "files", "sha256": {"test": "t"}, "counting_loss": 1.5}
    put(tmp_path, "tanh", 1, 1.4, data=data)
    put(tmp_path, "sigmoid", 1, 30, data=data)
    (figure,) = (each for each in TABLE.figures if each.id == "convergence")
    for axis in figures._curves(figure, collect(TABLE, "paper", tmp_path)).axes:
        bottom, top = axis.get_ylim()
        assert 1 < bottom < top < 3, "2.15 to 1.4 of tanh, and the paper's values; sigmoid falls from 30.75 to 30"
    write_report(collect(TABLE, "paper", tmp_path), tmp_path / "report")
    assert "out of view: rows that have not learned" in (tmp_path / "report" / "convergence.svg").read_text()


def test_a_figure_over_seconds_and_tokens(tmp_path: Path) -> None:
    points = [Point(step, step / 100, 2.0, 10 * step, 1000 * step) for step in (25, 50)]
    later = [point._replace(value=3.0, seconds=20 * point.step) for point in points]
    positions, low, mean, high = band([points, later], "valid", "seconds")
    assert positions.tolist() == [375, 750] and low[0] == 2 and mean[0] == 2.5 and high[0] == 3
    assert band([points], "valid", "tokens")[0].tolist() == [25_000, 50_000]


@pytest.mark.parametrize(
    ("budget", "select", "known", "said"),
    [
        ("paper", "best", True, "full data; dots: reported models; thin dots: the paper's values"),
        ("paper", "best", False, "full data; dots: reported models"),
        ("paper", "last", True, "full data; thin dots: the paper's values"),
        ("mini", "last", True, "full data"),
    ],
)
def test_a_figure_explains_the_marks_that_it_has(
    tmp_path: Path, budget: str, select: str, known: bool, said: str
) -> None:
    """The paper's value is a line in the panel of its own metric and split only, such as a validation curve."""
    put(tmp_path, "tanh", 1, 1.4, budget)
    rows = tuple(row if known else dataclasses.replace(row, paper={"test_bpc": 1.4}) for row in TABLE.rows)
    table = dataclasses.replace(TABLE, select=select, rows=rows)
    write_report(collect(table, budget, tmp_path), tmp_path / "report")
    picture = html.unescape((tmp_path / "report" / "convergence.svg").read_text())
    line = next(line for line in picture.splitlines() if f"budget {budget}, {said}<" in line)
    height, baseline = picture.split('viewBox="', 1)[1].split()[3].rstrip('"'), line.split(' y="', 1)[1].split('"')[0]
    assert float(baseline) < float(height) - 0.23 * 7, "underscores of a font of 7 points are cut off"


def test_sections_and_figures_of_a_table_of_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report has the order against the paper's and the steps to the baseline's final value beside the authors'.

    All figures are drawn.
    """
    real = Path(__file__).parents[2] / "outputs" / "reference" / "series"
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "series").symlink_to(real)
    for row, value in (("baseline", 1.3), ("tanh", 1.25), ("sigmoid", 1.2), ("highway", 1.31), ("tanh_l3_6", 1.0)):
        folder = put(tmp_path, row, 1, value, table=XL)
    folder = put(tmp_path, "sigmoid", 1, 1.2, table=XL)
    rng = np.random.default_rng(0)
    names = [f"blocks.{layer}.{sublayer}.gate" for layer in range(6) for sublayer in ("attention", "feed_forward")]
    (folder / "probes").mkdir()
    np.savez(folder / "probes" / "gate_biases.npz", **{name: rng.normal(size=512) for name in names})  # type: ignore[arg-type]
    report, paths = write_report(collect(XL, "paper", tmp_path), tmp_path / "report")
    assert report.rank_agreement == (  # without the row whose number is disputed
        "Order of 4 rows by test_bpc, compared with the paper's order: Kendall's tau +0.67; unrelated orders have one "
        f"within ±{tau_by_chance(4):.2f} in 95 % of cases."
    )
    (reached,) = (block for block in blocks(report, "convergence") if isinstance(block, Grid))
    steps = {row.cells[0]: row.cells[1:] for row in reached.rows}
    assert steps["XL-L6"] == ("100 (100%)", "38,800 (100%)", "+0.000")
    assert steps["+ sigmoid SDU"][:2] == ("100 (100%)", "25,600 (66%)")
    assert steps["+ highway gate"][:2] == ("never", "28,800 (74%)")
    assert "+ tanh SDU, L1-3" not in steps, "neither it nor the authors have a curve"
    assert {path.name for path in paths} >= {"convergence.svg", "ablation.png", "gate_biases.svg"}
    assert all(path.stat().st_size > 500 for path in paths)
    assert "the authors' logs" in (tmp_path / "report" / "convergence.svg").read_text()
    assert "Kendall's tau +0.67" in (tmp_path / "report" / "table.md").read_text()


def test_the_authors_logs_end_where_the_papers_table_does() -> None:
    """Each log ends at the paper's value, except for gated MHDPA.

    Its public log is of another run (FACTS.md 1.4): that of tanh SDU without FFN.
    """
    logs = read_curves(Path(__file__).parents[2] / "outputs" / "reference" / "series" / "highway_t5.csv")
    for row_id, curves in logs.items():
        same = "tanh_attention" if row_id == "gated_mhdpa" else row_id
        assert curves["valid", "bpc"][-1][2] == pytest.approx(XL.row(same).paper["valid_bpc"], abs=6e-4)
        assert len(curves["valid", "loss"]) == 100 and len(curves["train", "loss"]) == 200


def test_t_sne_keeps_groups_together() -> None:
    rng = np.random.default_rng(1)
    points = np.concatenate([rng.normal(centre, 0.1, (8, 20)) for centre in (-1, 0, 1)])
    points_2d = t_sne(points, 5.0)
    centres = points_2d.reshape(3, 8, 2).mean(1)
    inside = np.abs(points_2d.reshape(3, 8, 2) - centres[:, None]).max()
    assert min(np.linalg.norm(centres[i] - centres[j]) for i, j in ((0, 1), (0, 2), (1, 2))) > 2 * inside


def test_times_count_only_where_nothing_else_ran() -> None:
    def sample(exclusive: bool) -> Sample:
        result = {"cost": {"exclusive": exclusive}, "metrics": {"train_seconds": {}, "bleu": {}}}
        return Sample(Path(), 1, result)

    assert [sample(alone).counts_for("train_seconds") for alone in (True, False)] == [True, False]
    assert sample(False).counts_for("bleu") and sample(False).counts_for("parameters")
    assert not sample(False).counts_for("chrf"), "a run from before the metric was added"


# Translation


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
    put(tmp_path, "baseline", 1, 1.5)
    good = put(tmp_path, "tanh", 0, 1.4)
    folders: list[tuple[str, Path]] = []
    for seed, key in enumerate(NEEDED, start=1):
        folder = put(tmp_path, "tanh", seed, 1.4)
        folders.append((f"result.json has no {key}", folder))
        result = json.loads((folder / "result.json").read_text())
        del result[key]
        (folder / "result.json").write_bytes(sealed(result))
    flipped, curveless = put(tmp_path, "tanh", 98, 1.4), put(tmp_path, "tanh", 99, 1.4)
    (flipped / "result.json").write_bytes(b"\xff\x00{")
    (curveless / "curves.csv").write_bytes(bytes(range(256)))
    folders += [("result.json is corrupt", flipped), ("curves.csv cannot be read", curveless)]
    lacking = put(tmp_path, "tanh", 97, 1.4)
    result = json.loads((lacking / "result.json").read_text())
    del result["metrics"]["valid_bpc"]
    (lacking / "result.json").write_bytes(sealed(result))
    with caplog.at_level(logging.WARNING):
        report = build_report(collect(TABLE, "paper", tmp_path))
        build_report(collect(TABLE, "paper", tmp_path))
    assert next(str(line.seeds) for line in report.rows if line.row.id == "tanh") == "seed 0"
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == len(folders) + 1, "each is named once"
    assert any(f"{lacking}: metrics.valid_bpc is missing, but curves.csv has it" in line for line in messages)
    for sentence, folder in folders:
        assert any(f"{folder}: " in line and sentence in line for line in messages), sentence
        assert folder == curveless or RunDirectory(folder).status not in DONE, sentence
    assert RunDirectory(good).status == "finished"


def test_rows_as_points_and_bars(tmp_path: Path) -> None:
    """BLEU over accuracy correlates by -0.30 in the paper; our values need three rows for a line."""
    put_translation(tmp_path, "t_e4h6")
    report, paths = write_report(collect(TRANSLATION, "paper", tmp_path), tmp_path / "report")
    drawn = {path.stem: path.read_text() for path in paths if path.suffix == ".svg"}
    assert "paper (correlation -0.30)" in drawn["bleu_accuracy"] and ">ours<" in drawn["bleu_accuracy"]
    assert ">6 heads<" in drawn["bleu_heads"] and ">M3<" in drawn["bleu_heads"] and ">M3<" not in drawn["bleu_layers"]
    assert ">mean 1.5<" in drawn["lengths"] and "en: 22 different words" in drawn["lengths"]
    numbers = {measured.column.metric: measured.our_number for measured in report.rows[0].measured}
    assert str(numbers["bleu"]) == "2.00" and numbers["train_seconds"] is None


def test_figures_of_states(tmp_path: Path) -> None:
    """Figures show one row of either kind, as its run leaves it; the rows without records say so."""
    table = load_table("hsg_t1")
    ppl = {f"{split}_ppl": {"best": value, "last": value} for split, value in (("valid", 66.0), ("test", 63.5))}
    for row in ("rhn_20", "hsg_20"):
        probes = put(tmp_path, row, 1, 64.0, table=table, metrics=ppl) / "probes"
        probes.mkdir()
        np.savez(probes / "gradient_norms.npz", state=2.0 ** -np.arange(50.0))
        if row == "hsg_20":
            np.savez(probes / "gate_values.npz", **{"layers.0.gate": np.array([3.0, 0.0, 0.0, 1.0])})
    _, paths = write_report(collect(table, "paper", tmp_path), tmp_path / "report")
    drawn = {path.stem: path.read_text() for path in paths if path.suffix == ".svg"}
    assert "RHN 20 + HSG: 4 values" in drawn["gate_values"] and ">mean 0.312<" in drawn["gate_values"]
    assert "RHN 40 + HSG: no records" in drawn["gate_values"] and "depth 40: no records" in drawn["gradients"]
    assert "validation: no records" in drawn["convergence"]
    assert ">depth 20<" in drawn["gradients"] and ">RHN + HSG<" in drawn["gradients"]
    assert drawn["depth"].count(">paper<") == 2 and ">RHN + HSG<" in drawn["depth"]
    collected = collect(table, "paper", tmp_path)
    (sample,) = collected.finished("hsg_20")
    assert sample.probe("gate_values")["layers.0.gate"].sum() == 4 and sample.probe("nothing") == {}


def test_what_chance_does_to_the_order_of_rows() -> None:
    assert tau_by_chance(15) == pytest.approx(1.96 * math.sqrt(2 * 35 / (9 * 15 * 14)))
    rng = np.random.default_rng(1)
    taus = [kendall_tau(range(15), rng.permutation(15).tolist()) for _ in range(2000)]
    assert np.mean(np.abs(np.array(taus)) <= tau_by_chance(15)) == pytest.approx(0.95, abs=0.02)


def test_a_legend_of_long_labels_is_not_cut_off(tmp_path: Path) -> None:
    rows = [dataclasses.replace(row, label=f"{row.id} optimizer.lr=0.25 model.dropout=0.1") for row in TABLE.rows]
    table = dataclasses.replace(TABLE, rows=tuple(rows))
    for row in table.rows[:3]:
        put(tmp_path, row.id, 1, 1.5, table=table)
    figure = next(figure for figure in table.figures if figure.kind == "curves")
    canvas = figures._curves(figure, collect(table, "paper", tmp_path))
    (legend,) = canvas.legends
    assert 0 < legend.get_window_extent().width <= canvas.bbox.width


def test_rows_of_another_vocabulary_are_not_compared(tmp_path: Path) -> None:
    """A report has no verdict, change or difference between seeds for them, and none on the test set."""
    other = {"source": "files", "sha256": {"train": "a"}, "vocabulary_sha256": "other", "counting_loss": 99.0}
    for seed in (1, 2, 3):
        put(tmp_path, "baseline", seed, 1.5 + seed / 1000)
        put(tmp_path, "sigmoid", seed, 1.4 + seed / 1000)
        put(tmp_path, "tanh", seed, 1.2 + seed / 1000, data=other)
    report = build_report(collect(TABLE, "paper", tmp_path))
    words = {verdict.word for verdict in report.verdicts if "tanh" in (*verdict.claim.rows, *verdict.claim.than)}
    assert words == {"not comparable"}
    assert [difference.row.id for difference in report.differences] == ["sigmoid"]
    changes = {row.row.id: row.measured[3].change for row in report.rows}
    assert changes["sigmoid"] is not None and changes["tanh"] is None
    assert "other data or vocabulary than its baseline" in to_markdown(report)


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
    assert set(words.values()) <= {"not run", "one seed", "undecided"}, words
    assert "+ tanh SDU" in build_site(tmp_path, [TABLE]).read_text() or report.rows


def test_seeds_that_diverged_at_different_steps_have_no_line(tmp_path: Path) -> None:
    put(tmp_path, "baseline", 1, math.nan, status="diverged", curve=[(step, 5.0) for step in (100, 200, 300, 400)])
    put(tmp_path, "baseline", 2, math.nan, status="diverged", curve=[(50, 5.0)])
    put(tmp_path, "tanh", 1, 1.4)
    _, paths = write_report(collect(TABLE, "paper", tmp_path), tmp_path / "report")
    assert all(path.exists() for path in paths)


def test_lengths_are_of_the_first_record_that_has_them(tmp_path: Path) -> None:
    figure = next(figure for figure in TRANSLATION.figures if figure.kind == "lengths")
    put(tmp_path, TRANSLATION.rows[0].id, 1, 2.0, table=TRANSLATION)
    canvas = DRAWN["lengths"](figure, collect(TRANSLATION, "paper", tmp_path))
    assert not canvas.axes[0].patches


def test_any_number_of_predecessors_has_a_colour(tmp_path: Path) -> None:
    table = with_overrides(TRANSLATION, ["paper"], ["gate.score.predecessors=4"])
    assert len(looks(collect(table, "paper", tmp_path))) == len(table.rows)
