"""Between two rows of the curve, no update reads a value from the device."""

from collections.abc import Callable

import pytest

from highway.config.experiment import Experiment
from highway.tables.reading import load_table
from highway.testing.runs import trained
from tests.support.no_waiting import NoWaiting

ROWS = {  # a row of each task and of each way to carry a state
    "highway_t3": "tanh",
    "highway_t5": "tanh",
    "hsg_t1": "hsg_10",
    "gated_resnet_t1": "g1_e4h6",
    "r_transformer_t1": "r_transformer",
    "r_transformer_t2": "r_transformer",
}


@pytest.mark.parametrize("table_id", ROWS)
def test_no_update_waits(
    table_id: str, experiment: Callable[..., Experiment], monkeypatch: pytest.MonkeyPatch, short_figures: None
) -> None:
    table = load_table(table_id)
    overrides = table.overrides(table.row(ROWS[table_id]), "smoke", seed=1)
    short = ("trainer.max_steps=9", "trainer.validate_every=null", "trainer.log_every=6", "debug.windows=1")
    callback, once = NoWaiting(monkeypatch), "trainer.checkpoint_seconds=1000"  # a checkpoint reads
    _, result = trained(experiment(*overrides, *short, once), callback)
    assert result["status"] == "finished", result["error"]
    assert callback.watched >= 4
