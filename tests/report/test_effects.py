"""The effects that claims are about: the paper's beside ours, in reports, files and the forest plot."""

import csv
import io
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from highway.report.collect import collect
from highway.report.content import Report, build_report
from highway.report.details import claims_to_csv
from highway.report.effects import Effect
from highway.report.forest import SHADES, Entry, Mark, entries, forest_of_claims, forest_of_tables, forest_svg
from highway.report.render import effects_to_latex, to_markdown
from highway.tables.reading import load_table
from highway.tables.table import Epochs, Table
from tests.support.tables import TABLE, TRANSLATION, put, put_translation

pytestmark = pytest.mark.usefixtures("no_published_records")
MNIST = load_table("r_transformer_t1")
PAPER = TABLE.row("tanh").paper["test_bpc"] - TABLE.row("baseline").paper["test_bpc"]  # -0.131
BASELINE, TANH = (1.50, 1.52, 1.51), (1.38, 1.37, 1.385)


def write(outputs: Path, budget: str = "paper", **rows: tuple[float, ...]) -> None:
    for row, values in rows.items():
        for seed, value in enumerate(values, 1):
            put(outputs, row, seed, value, budget)


def claiming(table: Table = TABLE, **changes: Any) -> Table:
    """Return a table whose first claim has these changes, and no other claim."""
    return table.model_copy(update={"claims": [table.claims[0].model_copy(update=changes)]})


def effect(outputs: Path, table: Table) -> Effect | None:
    return build_report(collect(table, "paper", outputs)).verdicts[0].effect


def report(outputs: Path, budget: str = "paper", table: Table = TABLE) -> Report:
    return build_report(collect(table, budget, outputs))


def test_an_effect_has_the_papers_difference_and_ours_with_the_interval_of_welchs_test(tmp_path: Path) -> None:
    """In the direction in which the report compares the rows elsewhere, whatever the claim says."""
    write(tmp_path, baseline=BASELINE, tanh=TANH)
    low, high = stats.ttest_ind(TANH, BASELINE, equal_var=False).confidence_interval()
    for claim in ({}, {"better": ["baseline"], "than": ["tanh"]}):
        found = effect(tmp_path, claiming(**claim))
        assert found is not None and found.ours is not None
        assert (found.row.id, found.base.id) == ("tanh", "baseline")
        assert found.paper.value == pytest.approx(PAPER) and found.paper.text == "-0.131"
        assert found.ours.value == pytest.approx(np.mean(TANH) - np.mean(BASELINE))
        assert (found.ours.low, found.ours.high) == pytest.approx((low, high))
        assert (found.word, str(found)) == ("agrees", "agrees (paper: -0.131)")


def test_perplexities_are_compared_as_ratios(tmp_path: Path) -> None:
    table = load_table("highway_t3")
    for row, values in (("baseline", (98, 98.1, 98.2)), ("sigmoid", (109, 109.5, 110))):
        for seed, value in enumerate(values, 1):
            put(tmp_path, row, seed, 4.6, metrics={"test_ppl": {"best": value, "last": 1.0}}, table=table)
    found = report(tmp_path, table=table).verdicts[0].effect
    assert found is not None and found.ours is not None
    assert found.paper.value == pytest.approx(130.30 / 130.43 - 1) and found.paper.text == "-0.1 %"
    low, high = stats.ttest_ind(
        np.log([109, 109.5, 110]), np.log([98, 98.1, 98.2]), equal_var=False
    ).confidence_interval()
    assert (found.ours.low, found.ours.high) == pytest.approx(tuple(np.expm1([low, high])))
    assert found.word == "opposite"


@pytest.mark.parametrize(
    "claim",
    [
        {"metric": "valid_bpc"},
        {"over": Epochs(1, 1)},
        {"better": ["tanh", "sigmoid"]},
        {"better": [], "at_most": ["tanh"], "share": 0.1},
        {"better": ["matched"]},
    ],
)
def test_only_a_claim_on_one_pair_of_the_papers_test_numbers_has_an_effect(tmp_path: Path, claim: Any) -> None:
    write(tmp_path, baseline=BASELINE, tanh=TANH, sigmoid=TANH, matched=TANH)
    assert effect(tmp_path, claiming(**claim)) is None


def test_the_papers_effect_has_its_own_digits(tmp_path: Path) -> None:
    ratio, difference = (effect(tmp_path, claiming(load_table(name))) for name in ("hsg_t1", "highway_t5"))
    assert ratio is not None and (ratio.paper.text, ratio.paper.value) == ("-0.6 %", pytest.approx(65.0 / 65.4 - 1))
    assert difference is not None and difference.paper.text == "-0.02915"


def test_runs_that_agree_in_every_digit_are_not_sure_beyond_their_last_one(tmp_path: Path) -> None:
    write(tmp_path, baseline=(1.5, 1.5, 1.5), tanh=(1.4, 1.4, 1.4))
    found = effect(tmp_path, claiming())
    assert found is not None and found.ours is not None and found.ours.low < -0.1005 < -0.0995 < found.ours.high


@pytest.mark.parametrize(("further", "word"), [(0.0028, "agrees"), (0.0038, "larger")])
def test_the_rounding_of_the_papers_numbers_is_allowed_for(tmp_path: Path, further: float, word: str) -> None:
    """One more run of such rows reaches 0.0023 far, and rounding leaves another 0.001 open."""
    write(tmp_path, baseline=(1.5, 1.5, 1.5), tanh=(1.5 + PAPER - further,) * 3)
    found = effect(tmp_path, claiming())
    assert found is not None and found.word == word


def test_a_time_has_no_effect(tmp_path: Path) -> None:
    for metric, known in (("bleu", True), ("inference_seconds", False)):
        assert bool(effect(tmp_path, claiming(TRANSLATION, metric=metric))) == known


def test_copied_and_disputed_numbers_and_tables_of_ones_own_have_no_effect(tmp_path: Path) -> None:
    write(tmp_path, baseline=BASELINE, tanh=TANH)
    for name in ("copied", "disputed"):
        rows = [row.model_copy(update={name: "elsewhere"} if row.id == "baseline" else {}) for row in TABLE.rows]
        assert effect(tmp_path, claiming().model_copy(update={"rows": rows})) is None
    assert effect(tmp_path, claiming().model_copy(update={"paper": ""})) is None


@pytest.mark.parametrize(
    ("tanh", "changes", "ours", "word"),
    [
        ((), {}, None, "not run"),
        ((1.38,), {}, "-0.130 (one run)", "one run"),
        ((1.38,), {"status": "diverged"}, None, "a run failed"),
        (TANH, {"data": {"source": "files", "sha256": {"train": "b"}, "counting_loss": 99.0}}, None, "not comparable"),
    ],
)
def test_without_runs_to_compare_the_word_is_a_reason(
    tmp_path: Path, tanh: Any, changes: Any, ours: str | None, word: str
) -> None:
    write(tmp_path, baseline=BASELINE)
    for seed, value in enumerate(tanh, 1):
        put(tmp_path, "tanh", seed, value, **changes)
    found = effect(tmp_path, claiming())
    assert found is not None and (str(found.ours) if found.ours else None, found.word) == (ours, word)


def test_effects_are_in_the_report_in_csv_and_in_latex(tmp_path: Path) -> None:
    write(tmp_path, baseline=BASELINE, tanh=TANH, sigmoid=(1.5,))
    made = report(tmp_path)
    assert "|agrees (paper: -0.131)|" in to_markdown(made)
    lines = list(csv.DictReader(io.StringIO(claims_to_csv(made.collected, made.verdicts))))
    assert [line["claim"] for line in lines] == [claim.text for claim in TABLE.claims]
    first, second, *_, last = lines
    assert (first["row"], first["baseline"], first["unit"], first["word"]) == ("tanh", "baseline", "bits", "agrees")
    assert float(first["paper_effect"]) == pytest.approx(PAPER) and float(first["low"]) < float(first["effect"])
    assert (second["verdict"], second["low"], second["word"]) == ("one run", "", "one run")
    assert first["quote"] == TABLE.claims[0].quote and last["paper_effect"] == ""
    latex = effects_to_latex(made)
    assert "beats no gate on test bpc & $-$0.131 & $-$0.132 ($-$0.1" in latex and " & agrees \\\\" in latex
    smoke = report(tmp_path, "smoke")
    assert effects_to_latex(smoke) == claims_to_csv(smoke.collected, smoke.verdicts) == ""


def circles(svg: str) -> list[tuple[str, float, float]]:
    """Return the colour (none: the paper), x and y of each mark below the legend."""
    found = ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}circle")
    marks = [(mark.get("fill", ""), float(mark.get("cx", 0)), float(mark.get("cy", 0))) for mark in found]
    return [mark for mark in marks if mark[2] > 20]


def words(svg: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_the_forest_plot_has_a_line_for_each_budget_with_runs(tmp_path: Path) -> None:
    """To the right is better. Budgets differ by shade; of rows that have not run it shows the paper's effect."""
    write(tmp_path, baseline=BASELINE, tanh=(1.6, 1.61, 1.62))
    write(tmp_path, "mini", baseline=(2.0,), tanh=(1.5,))
    reports = [report(tmp_path), report(tmp_path, "mini")]
    svg = forest_of_claims(reports)
    paper, ours = (
        [mark for mark in circles(svg) if mark[0] == "none"],
        [mark for mark in circles(svg) if mark[0] != "none"],
    )
    (zero,) = re.findall(r'<line x1="([\d.]+)"[^>]*stroke="#565656"', svg)
    assert [colour for colour, *_ in ours] == ["#00304f", "#5596cc"]
    assert ours[0][1] < float(zero) < paper[0][1] < ours[1][1], "worse, the paper's, and better than the paper's"
    assert [y for *_, y in paper[:2]] == [y for *_, y in ours], "the paper's beside each of ours"
    assert svg.count('stroke-width="3"/>') == svg.count('stroke-width="1"/>') == 1, "one run has no interval"
    text = words(svg)
    assert "+ tanh SDU against T-L3 (test bpc)" in text and "at paper: opposite" in text and "at mini: one run" in text
    assert text.count("not run") == 2, "the claims on sigmoid SDUs"
    first = words(forest_of_tables([reports, [report(tmp_path, table=MNIST)]]))
    assert [line for line in first if " against " in line] == [
        "highway_t1: + tanh SDU against T-L3 (test bpc)",
        "r_transformer_t1: R-Transformer against Transformer (accuracy)",
    ]
    assert forest_of_claims([report(tmp_path, table=TABLE.model_copy(update={"paper": ""}))]) == ""


def test_the_plot_takes_any_table_of_a_paper(tmp_path: Path) -> None:
    """Labels are text; an effect may be zero; two claims may be about one effect; a budget may have any name."""
    rows = [row.model_copy(update={"label": "<b> & c", "paper": {"test_bpc": 1.5}}) for row in TABLE.rows]
    table = TABLE.model_copy(update={"rows": rows, "claims": [TABLE.claims[0], TABLE.claims[0]]})
    bare = forest_of_claims([report(tmp_path, table=table)])
    assert [colour for colour, *_ in circles(bare)] == ["none"] and "<b> & c against <b> & c (test bpc)" in words(bare)
    for row in ("baseline", "tanh"):
        for seed in (1, 2):
            put(tmp_path, row, seed, 1.5, table=table)
    svg = forest_of_claims([report(tmp_path, table=table)])
    assert len(circles(svg)) == 2 and "at paper: too wide" in words(svg)
    assert forest_of_claims([report(tmp_path, table=table.model_copy(update={"columns": TABLE.columns[:1]}))]) == ""
    (own, paper) = circles(forest_svg([Entry("a", 2.0, (Mark("large", "agrees", 1.0),))]))
    assert own[1] < paper[1] and own[0] not in SHADES.values()


def test_a_failed_run_and_other_data_are_said(tmp_path: Path) -> None:
    """Also if another budget has an effect. A table without runs has not run."""
    write(tmp_path, baseline=BASELINE, tanh=TANH)
    put(tmp_path, "tanh", 4, 1.4, status="diverged")
    write(tmp_path, "mini", baseline=BASELINE, tanh=TANH)
    (first, *_) = entries([report(tmp_path), report(tmp_path, "mini")])
    assert [(mark.budget, mark.word, mark.gain is None) for mark in first.marks] == [
        ("paper", "a run failed", True),
        ("mini", "agrees", False),
    ]
    assert [mark.word for entry in entries([report(tmp_path, table=MNIST)]) for mark in entry.marks] == ["not run"]
    sample = {"source": "sample", "sha256": {"train": "s"}, "counting_loss": 99.0}
    for row in ("g1_e4h6", "t_e4h6"):
        put(tmp_path, row, 1, 1.0, table=TRANSLATION, data=sample, metrics={"bleu": {"best": 4.0, "last": 4.0}})
    (other, *_) = entries([report(tmp_path, table=TRANSLATION)])
    assert [(mark.word, mark.gain) for mark in other.marks] == [("other data", None)]


def test_a_baseline_of_zero_has_no_gain(tmp_path: Path) -> None:
    for row, bleu in (("g1_e4h6", 2.0), ("t_e4h6", 0.0)):
        put_translation(tmp_path, row, bleu)
    assert entries([report(tmp_path, table=TRANSLATION)])[0].marks[0].gain is None


def test_gains_are_relative_to_the_baseline_and_of_an_accuracy_to_its_error(tmp_path: Path) -> None:
    for row, values in (("transformer", (0.90, 0.92)), ("r_transformer", (0.95, 0.96))):
        for seed, value in enumerate(values, 1):
            accuracy = {"test_accuracy": {"best": value, "last": value}}
            put(tmp_path, row, seed, 1.0, metrics=accuracy, table=MNIST)
    write(tmp_path, baseline=(2.0, 2.0), tanh=(1.5, 1.5))
    (entry,) = entries([report(tmp_path, table=MNIST)], 1)
    (mark,) = entry.marks
    assert mark.means and mark.runs and mark.runs[0] < mark.means[0] < 0 < mark.means[1] < mark.runs[1]
    assert mark.gain == pytest.approx(100 * (0.955 - 0.91) / (1 - 0.91))
    rows = [MNIST.row(name).paper["test_accuracy"] for name in ("r_transformer", "transformer")]
    assert entry.paper == pytest.approx(100 * (rows[0] - rows[1]) / (1 - rows[1]))
    (bits,) = entries([report(tmp_path)], 1)
    assert bits.marks[0].gain == pytest.approx(25)
