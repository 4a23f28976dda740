"""The audit: it counts correctly, finds what is known to be wrong, and finds nothing where all is well."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import audit
import pytest
import yaml
from contradictions import Finding, of_numbers

from highway.config.compose import experiment
from highway.run import build
from highway.sweep.cost import cost_of
from highway.tables.reading import load_table, parse_table
from highway.tables.table import Table


def differing(findings: Iterator[Finding]) -> dict[str, str]:
    return {finding.says: finding.computed for finding in findings if not finding.holds}


def changed(table: Table, row_id: str, **paper: float) -> Table:
    """Return the table with other numbers in one row."""
    rows = [row.model_copy(update={"paper": {**row.paper, **paper}}) if row.id == row_id else row for row in table.rows]
    return table.model_copy(update={"rows": rows})


def test_bits_that_are_headed_perplexity() -> None:
    differences = differing(of_numbers(load_table("highway_t1")))
    assert "3 of 3 values are loss / ln 2, 0 are exp(loss)" in differences["a column headed ppl (valid_bpc)"]
    assert not any("improves" in says for says in differences)  # the table gives 8.29 for 8.2, but both may be rounded
    better = differing(of_numbers(changed(load_table("highway_t1"), "sigmoid", test_bpc=1.369)))
    assert better["sigmoid SDU improves test by 8.2 % (section 4.1.1)"] == "by the table -8.43 %"
    for table_id in ("highway_t3", "highway_t4"):  # their perplexities are true ones, in all twelve pairs
        assert not any("ppl" in says for says in differing(of_numbers(load_table(table_id))))


def test_one_cell_whose_loss_and_bpc_disagree() -> None:
    table = load_table("highway_t6")
    differences = differing(of_numbers(table))
    assert differences == {"+ highway gate: eval loss 0.7784, eval bpc 1.120": "a loss of 0.7784 is 1.123"}
    right = 0.7784 / math.log(2)
    assert not differing(of_numbers(changed(table, "highway", valid_bpc=right)))


def test_equal_scores_of_different_networks() -> None:
    table = load_table("gated_resnet_t1")
    ties = [says for says in differing(of_numbers(table)) if "times" in says]
    assert ties == ["BLEU of different models: 17.29 3 times and 16.52 3 times"]
    apart = table
    for number, row in enumerate(table.rows):
        if row.paper:
            apart = changed(apart, row.id, bleu=row.paper["bleu"] + 0.013 * number)
    assert not [says for says in differing(of_numbers(apart)) if "times" in says]


def test_text_against_table() -> None:
    differences = differing(of_numbers(load_table("gated_resnet_t1")))
    assert differences["G2 has BLEU 15.51 (section VII.C)"] == "the table has 14.53"
    assert not any("6.8 %" in says for says in differences)
    growth = differing(of_numbers(load_table("hsg_t1")))
    assert any("+0.4, +0.3, +1.4, +1.9" in text for text in growth.values())  # no growth with depth on test
    less = [computed for says, computed in differences.items() if "section VII.B: R, M2 and M3" in says]
    of = [f"{count} of 7 pairs" for count in (5, 1, 6)]  # BLEU, training, inference
    assert [text.split("; ")[0] for text in less] == of


def test_a_heading_that_is_right_is_no_difference() -> None:
    table = load_table("highway_t1")
    for row in table.rows[:3]:
        table = changed(table, row.id, valid_bpc=math.exp(row.paper["valid_loss"]))
    headings = {finding.says: finding.holds for finding in of_numbers(table) if "headed" in finding.says}
    assert headings == {"a column headed ppl (valid_bpc)": True, "a column headed ppl (test_bpc)": False}


@pytest.mark.parametrize("table_id", ["highway_t5", "highway_t6"])
def test_selections_that_gate_nothing(table_id: str) -> None:
    """They are the rows whose numbers the table file calls disputed, so that reports do not count them."""
    table = load_table(table_id)
    loops = [finding for finding in audit.of_code(table) if "on some layers" in finding.says]
    differences = differing(iter(loops))
    assert {says.split(":")[0] for says in differences} == {row.label for row in table.rows if row.disputed} != set()
    assert all("gates no layer" in text for text in differences.values())
    assert len(loops) > 2 and any(finding.holds for finding in loops), "the loop gates other rows as printed, or not"


def test_what_the_numbers_do_not_decide() -> None:
    differences = {finding.says: finding.holds for finding in of_numbers(load_table("gated_resnet_t1"))}
    assert [holds for says, holds in differences.items() if "more connections, lower BLEU" in says] == [False]
    assert [says for says in differences if "6 layers, lower BLEU" in says and differences[says]], "it holds"
    turned = load_table("highway_t5")
    worse = changed(
        turned, "tanh", valid_bpc=2 * turned.rows[0].paper["valid_bpc"] - turned.row("tanh").paper["valid_bpc"]
    )
    assert "by the table +2.74 %" in differing(of_numbers(worse)).values()  # as far in the other direction


def test_what_a_step_costs() -> None:
    overrides = [
        "model=transformer",
        "dataset=ptb_char",
        "gate=none",
        "layers=none",
        "model.layers=1",
        "model.dropout=0",
    ]
    overrides += ["model.dropout_embedding=0", "model.dropout_attention=0"]
    described = experiment(overrides)
    counted, width, symbols = cost_of(described), described.model.width, described.dataset.vocabulary_size
    maps, window = 4 * width**2 + 8 * width**2, described.dataset.train.window
    scored = described.dataset.train.scored
    products = maps + 2 * window * width + symbols * width * scored / window  # of one token in the forward pass
    assert counted.operations == pytest.approx(
        3 * 2 * products, rel=0.05
    )  # the backward pass takes twice that, less where nothing is below
    model = build.model(described)
    assert counted.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert counted.tokens == described.dataset.train.lanes * window


def test_a_few_steps_of_a_recurrence_count_as_all(monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = ["model=rhn", "dataset=ptb_word_rhn", "gate=hsg", "model.depth=2", "model.width=64"]
    few = cost_of(experiment(overrides))
    monkeypatch.setattr("highway.sweep.cost.STEPS", 1000)
    every = cost_of(experiment(overrides))
    assert few.tokens == every.tokens and few.operations == pytest.approx(every.operations, rel=0.02)


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [
        ({"text": "x", "rows": ["tanh"]}, "write exactly one of value, percent"),
        ({"text": "x", "rows": ["tanh"], "value": 1.0, "metric": "nothing"}, "nothing"),
        ({"text": "x", "rows": ["missing"], "parameters": 1.0}, "there is no row 'missing'"),
        ({"text": "x", "rows": ["tanh"], "metric": "test_bpc", "percent": 1.0}, "Name as many rows in `than`"),
        ({"text": "x", "rows": "all", "parameters": 1.0}, r"rows=all must be a list"),
        (
            {"text": "x", "rows": ["highway"], "metric": "test_bpc", "value": 1.0},
            "row 'highway' has no test_bpc of the paper",
        ),
    ],
)
def test_what_cannot_be_stated(stated: dict[str, Any], sentence: str) -> None:
    content = yaml.safe_load((Path("conf") / "table" / "highway_t1.yaml").read_text())
    with pytest.raises(Exception, match=sentence):
        parse_table({**content, "stated": [stated]})


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("nothing", "there is no table 'nothing'"),
        ("highway_t1 --write {folder}", "is a folder; --write takes a file, as in --write audit.md."),
    ],
)
def test_a_mistake_is_one_sentence(
    line: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["audit.py", *line.format(folder=tmp_path).split()])
    with pytest.raises(SystemExit) as end:
        audit.main()
    assert end.value.code == 2 and sentence in capsys.readouterr().err


def test_the_page_is_what_the_audit_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["audit.py", "highway_t1", "--write", str(tmp_path / "audit.md")])
    audit.main()
    written = (tmp_path / "audit.md").read_text()
    page = (Path("docs") / "AUDIT.md").read_text()
    assert "shown by" in written and all(line in page for line in written.splitlines())
