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
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest
from scipy.stats import ttest_rel

from highway.config.compose import experiment
from highway.config.datasets import DATASETS
from highway.config.gates import GATES
from highway.config.models import MODELS
from highway.config.tasks import TASKS
from highway.data.translation import count_words
from highway.ledger.directory import RunDirectory
from highway.ledger.fingerprint import fingerprint
from highway.ledger.record import write_record
from highway.report import collect as collecting
from highway.report.bias_figures import t_sne
from highway.report.bootstrap import paired_bootstrap
from highway.report.collect import collect
from highway.report.convergence import mean_difference
from highway.report.figures import band
from highway.report.formats import to_csv, to_latex, to_markdown
from highway.report.publish import write_report
from highway.report.report import Report, build_report
from highway.report.sections import Block, Grid, Measured, Notes, Paragraph, Picture
from highway.report.statistics import (
    answer,
    differences,
    holm,
    interval,
    judge,
    kendall_tau,
    prediction,
    summarise,
    tau_by_chance,
)
from highway.report.style import looks
from highway.report.terminal import print_report
from highway.site.build import build_site
from highway.sweep.reading import load_table, parse_table
from highway.tasks.scoring import scores
from tests.support.tables import content, put

TABLE = load_table("highway_t1")
pytestmark = pytest.mark.usefixtures("no_published_records")


def blocks(report: Report, key: str) -> tuple[Block, ...]:
    """Return the blocks of the section with this key."""
    return next(section.blocks for section in report.sections if section.key == key)


def verdict(outputs: Path, text: str, budget: str = "paper") -> str:
    return {v.claim.text: v.word for v in build_report(collect(TABLE, budget, outputs)).verdicts}[text]


BEATS = "tanh SDU beats no gate on test bpc"
SOONER = "tanh SDU reaches the baseline's final validation loss in fewer steps"


@pytest.mark.parametrize(
    ("tanh", "baseline", "word"),
    [
        ([], [1.5], "not run"),
        ([1.4], [1.5], "one seed agrees"),
        ([1.6], [1.5], "one seed disagrees"),
        ([1.4, 1.6], [1.5, 1.5], "1 of 2 seeds agree"),
        ([1.40, 1.41, 1.42], [1.50, 1.51, 1.53], "supported"),
        ([1.60, 1.61, 1.62], [1.50, 1.51, 1.53], "refuted"),
        ([1.40, 1.60, 1.49], [1.50, 1.50, 1.50], "undecided"),
    ],
)
def test_verdicts_at_paper_budget(tmp_path: Path, tanh: list[float], baseline: list[float], word: str) -> None:
    for seed, value in enumerate(tanh, 1):
        put(tmp_path, "tanh", seed, value)
    for seed, value in enumerate(baseline, 1):
        put(tmp_path, "baseline", seed, value)
    assert verdict(tmp_path, BEATS) == word


def test_seeds_are_paired(tmp_path: Path) -> None:
    """Pairs agree even if seeds differ by far more than the rows do. A seed that only one row has does not count."""
    for seed, level in enumerate([1.0, 2.0, 3.0], 1):
        put(tmp_path, "baseline", seed, level)
        put(tmp_path, "tanh", seed, level - 0.1 - seed / 1000)
    put(tmp_path, "tanh", 4, 9.0)
    assert verdict(tmp_path, BEATS) == "supported"


@pytest.mark.parametrize("budget", ["mini", "smoke"])
def test_smaller_budgets_claim_ordering_only(tmp_path: Path, budget: str) -> None:
    for seed in (1, 2, 3):
        put(tmp_path, "tanh", seed, 1.4, budget)
        put(tmp_path, "baseline", seed, 1.5, budget)
    assert verdict(tmp_path, BEATS, budget) == f"same ordering ({budget})"
    assert verdict(tmp_path, "tanh SDU beats sigmoid SDU on test bpc", budget) == "not run"


def test_sample_data_is_named_in_the_verdict(tmp_path: Path) -> None:
    sample = {"source": "sample", "sha256": {}, "vocabulary_sha256": "v"}
    put(tmp_path, "tanh", 1, 1.6, "smoke", data=sample)
    put(tmp_path, "baseline", 1, 1.5, "smoke", data=sample)
    assert verdict(tmp_path, BEATS, "smoke") == "other ordering (smoke, sample data)"


def test_rows_on_other_vocabularies_are_not_compared(tmp_path: Path) -> None:
    put(tmp_path, "tanh", 1, 1.4, data={"source": "files", "sha256": {"train": "a"}, "vocabulary_sha256": "other"})
    put(tmp_path, "baseline", 1, 1.5)
    assert verdict(tmp_path, BEATS) == "not comparable"


@pytest.mark.parametrize(
    ("curve", "word"),
    [
        ([(25, 2.0), (50, 1.5), (100, 1.2)], "one seed agrees"),  # the baseline ends with 1.5 at step 100
        ([(25, 2.0), (50, 1.8), (100, 1.5)], "tied"),  # at the same step
        ([(25, 2.0), (50, 1.8), (100, 1.7)], "one seed disagrees"),  # never reaches it
    ],
)
def test_sooner(tmp_path: Path, curve: list[tuple[int, float]], word: str) -> None:
    put(tmp_path, "baseline", 1, 1.5)
    put(tmp_path, "tanh", 1, 1.4, curve=curve)
    assert verdict(tmp_path, SOONER) == word


def test_diverged_cells_are_shown_and_not_counted(tmp_path: Path) -> None:
    put(tmp_path, "tanh", 1, 1.4)
    put(tmp_path, "tanh", 2, math.nan, status="diverged")
    line = build_report(collect(TABLE, "paper", tmp_path)).rows[2]
    assert str(line.seeds) == "seed 1, 1 diverged"
    assert line.measured[3].our_number.text() == "1.400"


@pytest.mark.parametrize(
    ("cards", "name"),
    [(MODELS, "transformer"), (GATES["residual"], "sdu"), (DATASETS, "penn_treebank"), (TASKS, "language")],
)
def test_older_revisions_are_found_and_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cards: dict[str, Any], name: str
) -> None:
    put(tmp_path, "tanh", 1, 1.4)
    monkeypatch.setitem(cards, name, dataclasses.replace(cards[name], revision=3))
    assert str(build_report(collect(TABLE, "paper", tmp_path)).rows[2].seeds) == "seed 1, older revision"
    put(tmp_path, "tanh", 1, 1.3)
    line = build_report(collect(TABLE, "paper", tmp_path)).rows[2]
    assert (str(line.seeds), line.measured[3].our_number.text()) == ("seed 1", "1.300")


def test_records_of_other_code_are_marked(tmp_path: Path) -> None:
    """A record that does not name its code counts as up to date."""
    row = experiment(TABLE.overrides(TABLE.row("tanh"), "paper", 1))
    for code, status in ((None, "seed 1"), (fingerprint(row), "seed 1"), ("0" * 12, "seed 1, stale: other code")):
        put(tmp_path, "tanh", 1, 1.4, **({"fingerprint": code} if code else {}))
        assert str(build_report(collect(TABLE, "paper", tmp_path)).rows[2].seeds) == status


def test_statistics() -> None:
    values = [1.0, 1.5, 2.5]
    summary = summarise(values)
    assert summary is not None
    assert (summary.mean, summary.deviation) == (pytest.approx(5 / 3), pytest.approx(statistics.stdev(values)))
    assert summarise([2.0]).deviation is None  # type: ignore[union-attr]
    low, high = interval(values)  # t with 2 degrees of freedom: 4.3027
    assert high - low == pytest.approx(2 * 4.302653 * statistics.stdev(values) / math.sqrt(3))
    low, high = prediction(values)
    assert high - low == pytest.approx(2 * 4.302653 * statistics.stdev(values) * math.sqrt(4 / 3))
    assert (low + high) / 2 == pytest.approx(5 / 3)


def test_whether_a_number_comes_back(tmp_path: Path) -> None:
    """The report says which numbers of the paper are reproduced.

    The paper has 1.371 for sigmoid, 1.364 for tanh, and 1.382 without a gate.
    """
    for seed, value in enumerate((1.36, 1.37, 1.38), 1):
        put(tmp_path, "tanh", seed, value)
        put(tmp_path, "baseline", seed, value - 0.3)
        put(tmp_path, "sigmoid", 1, value)
    report = build_report(collect(TABLE, "paper", tmp_path))
    texts = {line.row.id: str(line.measured[-1].difference) for line in report.rows}
    assert texts["tanh"] == "+0.006, comes back" and texts["sigmoid"].count(",") == 0
    assert texts["baseline"].endswith(f"missed by {1.07 / TABLE.rows[0].paper['test_bpc'] - 1:+.1%}")
    assert report.answers == "4 of 12 numbers of the paper come back, 4 are missed; 4 have no three seeds yet."
    assert "after ± is the standard deviation" in to_markdown(report)
    for budget, outputs in (("mini", tmp_path), ("paper", tmp_path / "none")):
        assert not any(
            entry.answer for line in build_report(collect(TABLE, budget, outputs)).rows for entry in line.measured
        )
    collected = collect(TABLE, "paper", tmp_path)
    assert answer([1.0, 1.0, 1.0], 1.0004, 3, collected) and answer([1.0] * 3, 1.0004, 3, collected).comes_back  # type: ignore[union-attr]
    assert not answer([1.0] * 3, 1.0006, 3, collected).comes_back  # type: ignore[union-attr]
    assert answer([1.0, 1.0], 1.0, 3, collected) is None


def test_differences_are_a_paired_t_test_with_holms_correction(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = {row: rng.normal(1.4, 0.05, 4).tolist() for row in ("baseline", "tanh", "sigmoid", "highway")}
    for row, of_row in values.items():
        for seed, value in enumerate(of_row, 1):
            put(tmp_path, row, seed, value)
    report = build_report(collect(TABLE, "paper", tmp_path))
    plain = {row: float(ttest_rel(values[row], values["baseline"]).pvalue) for row in ("sigmoid", "tanh", "highway")}
    ranked = sorted(plain.values())
    highest = 0.0
    for rank, p in enumerate(ranked):
        highest = max(highest, min(1.0, p * (3 - rank)))
        row = next(name for name, value in plain.items() if value == p)
        difference = report.differences[row]
        assert difference.p == pytest.approx(highest)
        assert difference.mean == pytest.approx(np.mean(values[row]) - np.mean(values["baseline"]))
        assert (difference.low + difference.high) / 2 == pytest.approx(difference.mean)
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert f"## Compared with {TABLE.rows[0].label}" in to_markdown(report)
    assert differences(collect(TABLE, "mini", tmp_path), "test_bpc") == {}


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
    """Every renderer shows titles, sentences, heads, notes and captions, in the same order."""
    report = whole_report(tmp_path)
    keys = ["results", "also", "claims", "convergence", "differences", "figures", "choices", "environments"]
    assert [section.key for section in report.sections] == keys
    print_report(report, Console(file=(terminal := io.StringIO()), width=1000))
    (tmp_path / "report" / XL.id / "paper").mkdir(parents=True)
    for figure in report.figures:
        (tmp_path / "report" / XL.id / "paper" / f"{figure.id}.svg").touch()
    index = build_site(tmp_path, [report.collected.table])
    page = re.sub(r"<[^>]*>", " ", (index.parent / XL.id / "index.html").read_text())
    for text in map(plain, (terminal.getvalue(), to_markdown(report), page)):
        position = 0
        for section in report.sections:
            expected = [section.title]
            for block in section.blocks:
                match block:
                    case Paragraph():
                        expected += [str(sentence[0]) for sentence in block.sentences]
                    case Grid():
                        expected += [head.title for head in block.heads if head.title != "seeds"]
                        expected += [str(row.cells[0]) for row in block.rows]
                    case Notes():
                        expected += block.texts
                    case Picture():
                        expected.append(block.caption)
            for part in map(plain, expected):
                assert part in text[position:], (section.key, part)
                position = text.index(part, position)


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
    assert "A dash (—) means" in text and "after ± is" in text


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
    monkeypatch.setattr(collecting, "REFERENCE", tmp_path / "published")
    assert collect(TABLE, "paper", tmp_path / "mine").samples["tanh"][0].directory == published
    mine = put(tmp_path / "mine", "tanh", 1, 1.4)
    assert collect(TABLE, "paper", tmp_path / "mine").samples["tanh"][0].directory == mine


# Tables of many rows

XL = load_table("highway_t5")
EVERY_GATE = ("tanh", "sigmoid", "highway", "gated_mhdpa")


def xl_verdict(outputs: Path, text: str) -> str:
    return next(v.word for v in build_report(collect(XL, "paper", outputs)).verdicts if v.claim.text.startswith(text))


def test_a_claim_about_several_rows_holds_when_every_pair_does(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        put(tmp_path, "baseline", seed, 1.3 + seed / 1000, table=XL)
        for row in EVERY_GATE[:3]:
            put(tmp_path, row, seed, 1.2 + seed / 500, table=XL)
    assert xl_verdict(tmp_path, "every gate on all layers") == "not run"
    for seed, value in ((1, 1.2), (2, 1.21), (3, 1.22)):
        put(tmp_path, "gated_mhdpa", seed, value, table=XL)
    assert xl_verdict(tmp_path, "every gate on all layers") == "supported"
    for seed, value in ((1, 1.4), (2, 1.41), (3, 1.40)):
        put(tmp_path, "gated_mhdpa", seed, value, table=XL)
    assert xl_verdict(tmp_path, "every gate on all layers") == "refuted"


def claimed(outputs: Path, **claim: Any) -> tuple[str, str]:
    """Return the verdict on a claim about highway_t1, and its wording."""
    rows = [{"id": row.id, "label": row.label, "overrides": list(row.overrides)} for row in TABLE.rows[:3]]
    settings = {"recipe": list(TABLE.recipe), "columns": [{"metric": "test_bpc"}, {"metric": "valid_loss"}]}
    table = parse_table(content(**settings, rows=rows, claims=[{"text": "x", "metric": "test_bpc", **claim}]))
    verdict = judge(table.claims[0], collect(table, "paper", outputs))
    return verdict.word, verdict.detail


def test_what_is_said_beside_a_verdict(tmp_path: Path) -> None:
    for seed, value in ((1, 1.5), (2, 1.4)):
        put(tmp_path, "baseline", seed, 1.5)
        put(tmp_path, "tanh", seed, value, curve=[(25, 1.7), (50, 1.5), (75, 1.45), (100, 1.4)])
        put(tmp_path, "sigmoid", seed, 1.625, curve=[(50, 1.8), (100, 1.51)])
    tanh = {"than": "baseline", "better": "tanh"}
    assert claimed(tmp_path, **tanh) == ("1 of 2 seeds agree", "test_bpc, advantage by seed: -0, +0.1")
    every = claimed(tmp_path, than="baseline", better=["tanh", "sigmoid"])
    assert every == ("0 of 2 seeds agree", "test_bpc, least advantage by seed: -0.125, -0.125")
    sooner = {"than": "baseline", "metric": "valid_loss"}
    saved = "valid_loss, advantage by seed: +50 steps, +50 steps"  # against the last value, not an earlier one
    assert claimed(tmp_path, **sooner, sooner="tanh") == ("2 of 2 seeds agree", saved)
    never = "valid_loss, advantage by seed: never reached, never reached"
    assert claimed(tmp_path, **sooner, sooner="sigmoid") == ("0 of 2 seeds agree", never)
    put(tmp_path, "baseline", 3, 1.5)
    for seed in (1, 2, 3):
        put(tmp_path, "tanh", seed, 1.5)
    assert claimed(tmp_path, **tanh)[0] == "tied", "no difference at all supports nothing, and refutes nothing"


def test_advantages_that_grow(tmp_path: Path) -> None:
    """The advantage grows from pair to pair: of tanh over the baseline, then of sigmoid over tanh."""
    put(tmp_path, "baseline", 1, 1.5)
    put(tmp_path, "tanh", 1, 1.25)
    grows = {"growing": ["tanh", "sigmoid"], "than": ["baseline", "tanh"]}
    for sigmoid, word, second in ((1.125, "one seed disagrees", "+0.125"), (1.0, "tied", "+0.25")):
        put(tmp_path, "sigmoid", 1, sigmoid)
        evidence = f"test_bpc, advantage from pair to pair, by seed: +0.25, {second}"
        assert claimed(tmp_path, **grows) == (word, evidence)
    put(tmp_path, "sigmoid", 1, 0.75)
    assert claimed(tmp_path, **grows)[0] == "one seed agrees"
    assert claimed(tmp_path, growing=["sigmoid", "tanh"], than=["tanh", "baseline"])[0] == "one seed disagrees"


def test_the_rest_are_the_other_rows_of_the_paper() -> None:
    claim = next(claim for claim in XL.claims if claim.text.startswith("sigmoid SDU on all layers is the best"))
    assert set(claim.than) == {row.id for row in XL.rows if not row.extra} - {"sigmoid"}


def test_within_a_share(tmp_path: Path) -> None:
    claim = {"text": "x", "within": "tanh", "than": "baseline", "metric": "test_bpc", "share": 0.04}
    settings = {"recipe": list(TABLE.recipe), "columns": [dataclasses.asdict(column) for column in TABLE.columns]}
    rows = [{"id": row.id, "label": row.label, "overrides": list(row.overrides)} for row in TABLE.rows[:3]]
    table = parse_table(content(**settings, rows=rows, claims=[claim]))
    put(tmp_path, "baseline", 1, 1.0, table=table)
    for value, word in ((1.03, "one seed agrees"), (1.05, "one seed disagrees")):
        put(tmp_path, "tanh", 1, value, table=table)
        assert judge(table.claims[0], collect(table, "paper", tmp_path)).word == word


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
    def curve(*points: tuple[float, float]) -> list[collecting.Point]:
        return [collecting.Point(step, 0, value, 0, 0) for step, value in points]

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


def test_a_figure_over_seconds_and_tokens(tmp_path: Path) -> None:
    points = [collecting.Point(step, step / 100, 2.0, 10 * step, 1000 * step) for step in (25, 50)]
    later = [point._replace(value=3.0, seconds=20 * point.step) for point in points]
    positions, low, mean, high = band([points, later], "valid", "seconds")
    assert positions.tolist() == [375, 750] and low[0] == 2 and mean[0] == 2.5 and high[0] == 3
    assert band([points], "valid", "tokens")[0].tolist() == [25_000, 50_000]


@pytest.mark.parametrize(
    ("budget", "select", "known", "said"),
    [
        ("paper", "best", True, "full data; dots: the models that are reported; dotted lines: the paper's values"),
        ("paper", "best", False, "full data; dots: the models that are reported"),
        ("paper", "last", True, "full data; dotted lines: the paper's values"),
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
    for row, value in (("baseline", 1.3), ("tanh", 1.25), ("sigmoid", 1.2), ("highway", 1.31)):
        folder = put(tmp_path, row, 1, value, table=XL)
    folder = put(tmp_path, "sigmoid", 1, 1.2, table=XL)
    rng = np.random.default_rng(0)
    names = [f"blocks.{layer}.{sublayer}.gate" for layer in range(6) for sublayer in ("attention", "feed_forward")]
    (folder / "probes").mkdir()
    np.savez(folder / "probes" / "gate_biases.npz", **{name: rng.normal(size=512) for name in names})  # type: ignore[arg-type]
    report, paths = write_report(collect(XL, "paper", tmp_path), tmp_path / "report")
    assert report.rank_agreement == "Order of 4 rows by test_bpc, compared with the paper's order: Kendall's tau +0.67."
    (reached,) = (block for block in blocks(report, "convergence") if isinstance(block, Grid))
    steps = {row.cells[0]: row.cells[1:] for row in reached.rows}
    assert steps["XL-L6"] == ("100 (100%)", "38,800 (100%)", "+0.000")
    assert steps["+ sigmoid SDU"][:2] == ("100 (100%)", "25,600 (66%)")
    assert steps["+ highway gate"][:2] == ("never", "28,800 (74%)")
    assert steps["+ tanh SDU, L1-3"] == (None, None, None)
    assert {path.name for path in paths} >= {"convergence.svg", "ablation.png", "gate_biases.svg"}
    assert all(path.stat().st_size > 500 for path in paths)
    assert "the authors' logs" in (tmp_path / "report" / "convergence.svg").read_text()
    assert "Kendall's tau +0.67" in (tmp_path / "report" / "table.md").read_text()


def test_the_authors_logs_end_where_the_papers_table_does() -> None:
    """Each log ends at the paper's value, except for gated MHDPA.

    Its public log is of another run (FACTS.md 1.4): that of tanh SDU without FFN.
    """
    logs = collecting.read_curves(Path(__file__).parents[2] / "outputs" / "reference" / "series" / "highway_t5.csv")
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
    def sample(exclusive: bool) -> collecting.Sample:
        result = {"cost": {"exclusive": exclusive}, "metrics": {"train_seconds": {}, "bleu": {}}}
        return collecting.Sample(Path(), 1, result, older_revision=False)

    assert [sample(alone).counts_for("train_seconds") for alone in (True, False)] == [True, False]
    assert sample(False).counts_for("bleu") and sample(False).counts_for("parameters")
    assert not sample(False).counts_for("chrf"), "a run from before the metric was added"


# Translation

TRANSLATION = load_table("gated_resnet_t1")
REFERENCES = ["a b c d e f", "the cat sat on the mat .", "one two three four", "so it goes , again and again"] * 10


def put_translation(
    outputs: Path, row_id: str, bleu: float = 2.0, wrong: int = 0, seed: int = 1, **metrics: float
) -> None:
    """Write a record of a translation whose first `wrong` sentences are cut in half."""
    columns = [column.metric for column in (*TRANSLATION.columns, *TRANSLATION.also)]
    values = {**dict.fromkeys(columns, 1.0), "bleu": bleu, **metrics}
    outputs_of = [text[: len(text) // 2] if number < wrong else text for number, text in enumerate(REFERENCES)]
    put(
        outputs,
        row_id,
        seed,
        2.0,
        table=TRANSLATION,
        metrics={metric: {"best": 0.0, "last": value} for metric, value in values.items()},
        cost={"device": "a device", "exclusive": False},
        data={
            "source": "files",
            "sha256": {"train": "a"},
            "vocabulary_sha256": "v",
            "words": {"pt": count_words(["um dois", "um"]), "en": count_words(REFERENCES)},
        },
        notes=scores(outputs_of, REFERENCES)[1],
    )


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


def test_a_damaged_record_is_named_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(tmp_path, "baseline", 1, 1.5)
    folders = [put(tmp_path, "tanh", seed, 1.4) for seed in range(1, 9)]
    result = json.loads((folders[0] / "result.json").read_text())
    damaged: list[tuple[Any, str]] = [
        (
            {**result, "seed": 2, "metrics": {"test_bpc": {"best": "1.4", "last": 1.4}}},
            "metrics.test_bpc is not a number",
        ),
        ({**result, "seed": 3, "metrics": {"<b>": {"best": 1, "last": 1}}}, "metrics names '<b>'"),
        ({**result, "seed": "4"}, "seed is not a whole number"),
        ({**result, "seed": 5, "cost": None}, "cost is not a table of costs"),
        ({"seed": 6}, "status is not one of"),
    ]
    for folder, (written, _) in zip(folders[1:], damaged, strict=False):
        write_record(folder, written)
    (folders[6] / "result.json").write_bytes(b"\xff\x00{")
    (folders[7] / "curves.csv").write_bytes(bytes(range(256)))
    with caplog.at_level(logging.WARNING):
        report = build_report(collect(TABLE, "paper", tmp_path))
        build_report(collect(TABLE, "paper", tmp_path))
    assert next(str(line.seeds) for line in report.rows if line.row.id == "tanh") == "seed 1"
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 7, "each is named once"
    for folder, (_, why) in zip(folders[1:], damaged, strict=False):
        assert any(str(folder) in line and why in line for line in messages)
    assert any(str(folders[6]) in line and "result.json is corrupt" in line for line in messages)
    assert any(str(folders[7]) in line and "curves.csv is corrupt" in line for line in messages)
    assert RunDirectory(folders[6]).status != "finished" and RunDirectory(folders[0]).status == "finished"


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


def test_paired_bootstrap_is_sacrebleus(tmp_path: Path) -> None:
    systems = [[text[: 5 + shorter] for text in REFERENCES] for shorter in (9, 8, 2)]
    ours = paired_bootstrap([scores(outputs, REFERENCES)[1]["bleu_counts"] for outputs in systems])
    named = [(str(number), outputs) for number, outputs in enumerate(systems)]
    metric = BLEU(tokenize="none", force=True)
    _, theirs = PairedTest(named, {"BLEU": metric}, [REFERENCES], test_type="bs")()
    assert [vars(result) for result in ours] == [vars(result) for result in theirs["BLEU"]]


def test_rows_are_compared_on_their_sentences(tmp_path: Path) -> None:
    put_translation(tmp_path, "t_e4h6", wrong=2)
    put_translation(tmp_path, "r_e4h6", wrong=30)
    put_translation(tmp_path, "m2_e4h6", wrong=3)
    put_translation(tmp_path, "g1_e4h6", wrong=2)
    put_translation(tmp_path, "g1_e4h8", wrong=9)  # its base has not been run
    report = build_report(collect(TRANSLATION, "paper", tmp_path))
    worse, like, same = report.compared
    assert (worse.row.id, worse.base.id, like.row.id, same.row.id) == ("r_e4h6", "t_e4h6", "m2_e4h6", "g1_e4h6")
    assert worse.difference < -10 and worse.p < 0.01
    assert -5 < like.difference < 0 and like.p > 0.05
    markdown = to_markdown(report)
    assert "| G1, 4 layers, 6 heads | T, 4 layers, 6 heads | 1 |" in markdown and "| +0.00 | — |" in markdown
    assert "| model | chrF | BLEU of sentence 1 |" in markdown and "| T, 4 layers, 6 heads | 1.00 | 1.00 |" in markdown


def test_whether_two_metrics_order_the_rows_alike(tmp_path: Path) -> None:
    for rank, row in enumerate(row for row in TRANSLATION.rows if not row.extra):
        orders = {"valid_accuracy": rank, "sparsity": -rank, "valid_loss": rank * 7 % 15}  # tau -0.20 for the last
        put_translation(tmp_path, row.id, bleu=rank, **orders)
    collected = collect(TRANSLATION, "paper", tmp_path)
    verdicts = {verdict.claim.text: verdict for verdict in build_report(collected).verdicts}
    assert verdicts["BLEU does not follow accuracy"].word == "one seed disagrees"
    assert verdicts["BLEU does not follow loss"].word == "one seed agrees"
    assert "tau by seed: -0.20; by chance within ±0.38" in verdicts["BLEU does not follow loss"].detail
    alike = dataclasses.replace(verdicts["BLEU does not follow loss"].claim, to="bleu_of_sentence_1")
    assert judge(alike, collected).word == "one seed disagrees", "rows that are all alike have no order"
    assert "tau by seed: none, all rows are alike; by chance" in judge(alike, collected).detail
    for rank, row in enumerate(row for row in TRANSLATION.rows if not row.extra):
        put_translation(tmp_path, row.id, seed=2, bleu=rank, valid_loss=-rank)
    detail = judge(verdicts["BLEU does not follow loss"].claim, collect(TRANSLATION, "paper", tmp_path)).detail
    assert "tau by seed: -0.20, -1.00; by chance within ±0.38" in detail
    assert verdicts["sparser models train faster"].word == "not run"  # on a busy machine times say nothing
    opposed = dataclasses.replace(verdicts["BLEU does not follow accuracy"].claim, kind="opposed")
    assert judge(opposed, collected).word == "one seed disagrees"
    assert judge(dataclasses.replace(opposed, to="sparsity"), collected).word == "one seed agrees"
    assert judge(dataclasses.replace(opposed, to="valid_loss"), collected).word == "one seed disagrees", "by chance"


def test_what_chance_does_to_the_order_of_rows() -> None:
    assert tau_by_chance(15) == pytest.approx(1.96 * math.sqrt(2 * 35 / (9 * 15 * 14)))
    rng = np.random.default_rng(1)
    taus = [kendall_tau(range(15), rng.permutation(15).tolist()) for _ in range(2000)]
    assert np.mean(np.abs(np.array(taus)) <= tau_by_chance(15)) == pytest.approx(0.95, abs=0.02)
