"""A row without a gate gets the parameters of a gated one: at every budget, and under overrides of the command line."""

import pytest

from highway.config.compose import experiment
from highway.errors import Refused
from highway.tables.matched import parameters
from highway.tables.reading import load_table, parse_table
from tests.support.tables import content

OVERRIDES = ("model.width=96", "model.layers=2")


@pytest.mark.parametrize(
    ("table_id", "gated"), [("highway_t1", "tanh"), ("highway_t3", "sigmoid"), ("highway_t5", "tanh")]
)
@pytest.mark.parametrize(("budget", "typed"), [("paper", ()), ("mini", ()), ("smoke", OVERRIDES)])
def test_it_has_as_many_parameters_and_no_gate(table_id: str, gated: str, budget: str, typed: tuple[str, ...]) -> None:
    table = load_table(table_id)
    matched, theirs = (
        experiment(table.overrides(table.row(row).adding(typed), budget, seed=1)) for row in ("matched", gated)
    )
    plain = experiment(table.overrides(table.row("baseline").adding(typed), budget, seed=1))
    (total, of_gates), (aim, _) = parameters(matched), parameters(theirs)
    unit = matched.model.layers * (2 * matched.model.width + 1)  # a column, a row and a bias in each layer
    assert of_gates == 0
    assert abs(total - aim) <= unit / 2 < aim - parameters(plain)[0]
    assert matched.model.model_copy(update={"feed_forward": plain.model.feed_forward}) == plain.model
    assert table.base("matched") == gated


def test_a_larger_model_is_not_made_smaller() -> None:
    rows = [
        {"id": "a", "label": "A", "overrides": ["gate=none"]},
        {"id": "b", "label": "B", "overrides": ["gate=sdu_tanh"], "parameters_of": "a"},
    ]
    table = parse_table(content(recipe=["model=transformer", "dataset=ptb_char"], rows=rows))
    with pytest.raises(Refused, match="fewer than this row's"):
        table.overrides(table.row("b"), "paper", seed=1)


def test_a_model_without_a_feed_forward_layer_is_refused() -> None:
    rows = [
        {"id": "a", "label": "A", "overrides": ["gate=hsg"]},
        {"id": "b", "label": "B", "overrides": ["gate=none"], "parameters_of": "a"},
    ]
    table = parse_table(content(recipe=["model=rhn", "dataset=ptb_word"], rows=rows, columns=[{"metric": "test_ppl"}]))
    assert table.base("b") == "a"
    with pytest.raises(Refused, match=r"widens model\.feed_forward, which model rhn does not have"):
        table.overrides(table.row("b"), "paper", seed=1)
