"""A GPU computes what the CPU computes, and resumes exactly. `make gpu-check` runs these tests."""

from collections.abc import Callable

import pytest
import torch
from safetensors.torch import load_file

from highway.config.experiment import Experiment
from highway.run.cautions import is_stacked_lstm
from highway.tables.reading import load_table, table_ids
from highway.testing.runs import assert_resumes_exactly, trained
from tests.support.agreement import BOUNDS, disagreements, row, steps_of
from tests.support.no_waiting import NoWaiting
from tests.support.overrides import CARRIES, SHORT
from tests.support.stand_in_graph import StandIn

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores"),  # torch.compile's advice; here fp32 is meant
]
WHOLE = {
    "windows": (*SHORT, "optimizer=adam"),
    "memory": (*CARRIES, "dataset.train.memory=10", "dataset.evaluation.memory=10", "model.dropout=0.3"),
}
SAME = BOUNDS["32"]  # same precision, other kernels: cuBLAS may choose others in a graph, the compiler fuses


@pytest.mark.parametrize("table_id", table_ids(trained=True))
def test_rows_agree_with_the_cpu(table_id: str) -> None:
    """Compare ten steps of every row in fp32, TF32 and bf16 with fp32 on the CPU."""
    different = {}
    for row_id in [each.id for each in load_table(table_id).at("smoke")]:
        described = row(table_id, row_id)
        apart = disagreements(described, "cuda")
        if is_stacked_lstm(described):  # wrong in bf16, as a run says
            apart.pop("bf16", None)
        different |= {row_id: apart} if apart else {}
    assert different == {}


@pytest.mark.parametrize("row_id", ["rhn_10", "hsg_10"])
def test_loops_recorded_as_graphs_equal_their_kernels(row_id: str) -> None:
    described = row("hsg_t1", row_id)
    apart = steps_of(described, "cuda").apart(steps_of(described, "cuda", in_graphs=False))
    assert apart.within(SAME), apart


@pytest.mark.parametrize(
    ("table_id", "row_id"),
    [("highway_t3", "tanh"), ("highway_t5", "tanh"), ("r_transformer_t3", "r_transformer"), ("hsg_t1", "hsg_10")],
)
def test_compiled_steps_equal_eager_steps(table_id: str, row_id: str) -> None:
    """CUDA graphs overwrite their outputs: a state that is carried must survive the next step."""
    described = row(table_id, row_id)
    apart = steps_of(described, "cuda", "reduce-overhead").apart(steps_of(described, "cuda"))
    assert apart.within(SAME), apart


@pytest.mark.parametrize("kind", WHOLE)
def test_a_whole_update_equals_its_kernels(
    kind: str, tiny: Callable[..., Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty updates with dropout: a seed in the graph would give every update the same masks."""
    described = tiny(*WHOLE[kind], "trainer.accelerator=gpu", "trainer.compile=whole", "trainer.max_steps=50")
    graph, result = trained(described)
    StandIn(monkeypatch)
    described.outputs_dir /= "kernels"
    kernels, again = trained(described)
    assert result["metrics"]["test_loss"] == pytest.approx(again["metrics"]["test_loss"], rel=1e-4)
    torch.testing.assert_close(load_file(graph.last), load_file(kernels.last), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("compiled", ["null", "reduce-overhead", "whole"])
@pytest.mark.parametrize(("table_id", "row_id"), [("highway_t3", "tanh"), ("highway_t5", "tanh"), ("hsg_t1", "hsg_10")])
def test_no_update_waits_for_the_gpu(
    table_id: str, row_id: str, compiled: str, experiment: Callable[..., Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = load_table(table_id)
    overrides = [*table.overrides(table.row(row_id), "smoke", seed=1), "dataset.source=sample", "debug.windows=1"]
    short = ("trainer.max_steps=24", "trainer.validate_every=null", "trainer.log_every=9")
    callback, once = NoWaiting(monkeypatch), "trainer.checkpoint_seconds=1000"  # a checkpoint reads
    _, result = trained(experiment(*overrides, *short, once, f"trainer.compile={compiled}"), callback)
    assert result["status"] == "finished", result["error"]
    assert callback.watched >= 8


def test_a_stopped_run_resumes_exactly(tiny: Callable[..., Experiment]) -> None:
    overrides = (*SHORT, "trainer.accelerator=gpu", "trainer.deterministic=true")
    whole, result = trained(tiny(*overrides))
    stopped = tiny(*overrides)
    stopped.outputs_dir /= "stopped"
    assert_resumes_exactly(stopped, [5], whole, result)
