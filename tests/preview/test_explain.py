"""The page of `highway table explain`: whole names at any width, and what validation chooses."""

from dataclasses import replace

import pytest
from rich.console import Console

from highway.preview.explain import explain_table
from highway.sweep.reading import load_table


def test_explain_shows_whole_names_at_80_columns() -> None:
    table = load_table("highway_t6")
    row = table.row("sigmoid_l6_12_as_released")
    console = Console(record=True, width=80)
    explain_table(replace(table, rows=(table.rows[0], row)), "smoke", console)
    assert row.id in console.export_text().split()


@pytest.mark.parametrize(
    ("table_id", "before"),
    [("r_transformer_t2", "gru: optimizer.lr=0.0003 was "), ("r_transformer_t3", "gru, lstm: ")],  # stated, and not yet
)
def test_explain_says_what_validation_chooses(table_id: str, before: str) -> None:
    table = load_table(table_id)
    gru = table.row("gru")
    assert gru.choose is not None
    few = replace(table, rows=(table.row("transformer"), gru, table.row("lstm")))
    for budget, expected in (("paper", True), ("smoke", False)):
        console = Console(record=True, width=400)
        explain_table(few, budget, console)
        assert (f"{before}chosen {gru.choose.rule}" in console.export_text()) is expected
