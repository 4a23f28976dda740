"""The page of `highway table explain`: one screen a row, whole names at any width, gates that act, what is chosen."""

import re

import pytest
from rich.console import Console

from highway.tables.explain import explain_row, explain_table
from highway.tables.reading import load_table
from highway.tables.table import Row, Table


def page(table: Table, row: Row) -> str:
    """Return what `highway table explain TABLE ROW` prints on a terminal of 100 columns."""
    console = Console(record=True, width=100)
    explain_row(table, row, "paper", console)
    return re.sub(" +\n", "\n", console.export_text())


@pytest.mark.parametrize(
    ("table_id", "row_id", "end"),
    [
        ("highway_t3", "tanh", "gate=sdu_tanh budget=paper seed=1"),
        ("hsg_t1", "hsg_10", "gate=hsg budget=paper seed=1"),
        ("gated_resnet_t1", "g1_e4h6", "model.heads=6 budget=paper seed=1"),
        ("r_transformer_t2", "r_transformer", "budget=paper seed=1"),
        ("highway_t7", "tanh", "highway table time highway_t7 --budget paper"),  # timed, not trained
    ],
)
def test_a_row_fits_on_one_screen(table_id: str, row_id: str, end: str) -> None:
    table = load_table(table_id)
    text = page(table, table.row(row_id))
    assert len(text.splitlines()) <= 50
    assert text.rstrip().endswith(end)


@pytest.mark.parametrize(
    ("table_id", "row_id", "added"),
    [
        ("highway_t1", "baseline", ["gate=sdu_tanh", "layers=none", "gate.reads=normalised"]),
        ("highway_t5", "sigmoid_l3_6_as_released", []),  # the released code gates no layer
    ],
)
def test_a_gate_on_no_layer_shows_no_options(table_id: str, row_id: str, added: list[str]) -> None:
    table = load_table(table_id)
    row = table.row(row_id).named_after(added) if added else table.row(row_id)
    text = page(table.model_copy(update={"rows": [*table.rows, row]}), row)
    described = text[text.index("\nmodel ") : text.index("\ncommand ")]
    assert "No gate is added to any layer: `layers` leaves none for gate.residual=sdu.\n" in described
    assert not re.search(r"equation|\bpsi\b|gate.activation|gate.reads|conf/gate", described)
    assert "No gate is added to any layer.\n" in page(table, table.row("baseline"))


def test_a_gate_shows_what_differs_from_its_usual_form() -> None:
    table = load_table("highway_t3")
    inside, usual = (page(table, table.row(name)) for name in ("inside_tanh", "tanh"))
    for option in ("gate.reads=normalised: input of the gate", "gate.inside_dropout=true: the sublayer's dropout"):
        assert option in inside and option not in usual
    assert "psi = one (there is no W1)" in page(table, table.row("linear"))


def test_explain_quotes_the_paper() -> None:
    table = load_table("highway_t3")
    console = Console(record=True, width=400)
    explain_table(table.model_copy(update={"rows": table.rows[:1]}), "smoke", console)
    text, (first, second, third, _) = console.export_text(), table.claims
    assert f"“{first.quote}” (section 4.1.2)\n  claim: {first.text}\n  claim: {second.text}\n" in text
    assert f"“{third.quote}” (section 4.1.2)\n  claim: {third.text}\n" in text


def test_explain_shows_whole_names_at_80_columns() -> None:
    table = load_table("highway_t6")
    row = table.row("sigmoid_l6_12_as_released")
    console = Console(record=True, width=80)
    explain_table(table.model_copy(update={"rows": [table.rows[0], row]}), "smoke", console)
    assert row.id in console.export_text().split()


@pytest.mark.parametrize(
    ("table_id", "before"),
    [("r_transformer_t2", "gru: optimizer.lr=0.0003 was "), ("r_transformer_t3", "gru, lstm: ")],  # stated, and not yet
)
def test_explain_says_what_validation_chooses(table_id: str, before: str) -> None:
    table = load_table(table_id)
    gru = table.row("gru")
    assert gru.choose is not None
    few = table.model_copy(update={"rows": [table.row("transformer"), gru, table.row("lstm")]})
    for budget, expected in (("paper", True), ("smoke", False)):
        console = Console(record=True, width=400)
        explain_table(few, budget, console)
        assert (f"{before}chosen {gru.choose.rule}" in console.export_text()) is expected
