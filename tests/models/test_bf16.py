"""A row of every model trains in bf16, also with the kernels of a processor that has AVX2 alone (make test-slow)."""

from collections.abc import Callable

import pytest

from highway.config.experiment import Experiment
from highway.tables.reading import load_table
from highway.testing.runs import trained
from tests.support.overrides import two_steps

ROWS = [
    ("highway_t1", "tanh"),
    ("highway_t2", "tanh"),
    ("highway_t5", "highway"),
    ("hsg_t1", "hsg_10"),
    ("gated_resnet_t1", "g3_e4h6"),
    ("r_transformer_t1", "rnn"),
    ("r_transformer_t1", "gru"),
    ("r_transformer_t1", "tcn"),
    ("r_transformer_t2", "lstm"),
]


@pytest.mark.usefixtures("short_figures")
@pytest.mark.parametrize(("table_id", "row_id"), ROWS)
def test_a_row_trains(experiment: Callable[..., Experiment], table_id: str, row_id: str) -> None:
    table = load_table(table_id)
    overrides = table.overrides(table.row(row_id), "smoke", 1)
    few = two_steps(experiment(*overrides).task)
    _, result = trained(experiment(*overrides, *few, "trainer.precision=bf16"))
    assert result["status"] == "finished", result["error"]
