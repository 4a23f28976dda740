"""trainer.compile=whole, with a stand-in for the graph: it computes what the same updates compute one by one."""

from collections.abc import Callable
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from safetensors.torch import load_file

from highway.config.experiment import Experiment
from highway.run.compiled import FixedShapes
from highway.run.whole import WARM_UP
from highway.testing.runs import StopAt, curve, numbers, same_weights, trained
from tests.support.overrides import CARRIES, SHORT_LAST
from tests.support.stand_in_graph import StandIn

Compose = Callable[..., Experiment]
UPDATES = 50
LENGTH = (f"trainer.max_steps={UPDATES}", "trainer.max_epochs=1000", "trainer.log_every=7", "model.dropout=0.3")
MEMORY = ("dataset.train.memory=10", "dataset.evaluation.memory=10")
KINDS: dict[str, tuple[str, ...]] = {
    "windows": (SHORT_LAST, "optimizer=adam_cosine", "optimizer.weight_decay=0.1", "optimizer.clip=0.5"),
    "memory": (*CARRIES, *MEMORY, "optimizer=sgd_momentum", "optimizer.clip=0.5"),
}


def without_gpu(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    monkeypatch.setattr("highway.training.mode_of", lambda *_: "whole")
    monkeypatch.setattr(FixedShapes, "compile", lambda self, *_, **__: self.eager)
    return StandIn(monkeypatch)


class Seen(pl.Callback):
    """The learning rate of the optimiser after each update, and whether a graph ran it."""

    def __init__(self) -> None:
        self.updates: list[tuple[Any, bool]] = []

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, *_: Any) -> None:
        self.updates.append((trainer.optimizers[0].param_groups[0]["lr"], pl_module.in_graph))


@pytest.mark.parametrize("kind", KINDS)
def test_updates_in_a_graph_equal_those_one_by_one(kind: str, tiny: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    described = tiny(*KINDS[kind], *LENGTH)
    plain, result = trained(described, one_by_one := Seen())
    described.outputs_dir /= "whole"
    stand_in = without_gpu(monkeypatch)
    whole, again = trained(described, in_graph := Seen())
    assert again["status"] == "finished", again["error"]
    assert again["environment"]["compile"] == "whole"
    assert [rate for rate, _ in in_graph.updates] == [rate for rate, _ in one_by_one.updates]
    assert again["metrics"]["test_loss"] == pytest.approx(result["metrics"]["test_loss"], rel=1e-6)
    weights, others = load_file(plain.last), load_file(whole.last)
    torch.testing.assert_close(weights, others, rtol=1e-5, atol=1e-6)  # a graph has the learning rate in fp32
    losses, of_others = ([float(row[-1]) for row in curve(run)] for run in (plain, whole))
    assert of_others == pytest.approx(losses, rel=1e-5)
    ran = sum(graph for _, graph in in_graph.updates)
    assert stand_in.calls == ["aside"] * WARM_UP + ["record"] + ["replay"] * (ran - WARM_UP)
    assert UPDATES / 3 < ran < UPDATES, "some updates are shown, short, or the first of an epoch"


def test_a_resumed_run_records_anew_and_is_exact(tiny: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    without_gpu(monkeypatch)
    described = tiny(*KINDS["memory"], *LENGTH)
    whole, result = trained(described)
    described.outputs_dir /= "stopped"
    trained(described, StopAt(20))
    resumed, again = trained(described)
    assert numbers(again) == numbers(result) and same_weights(whole.last, resumed.last)
    assert torch.load(resumed.checkpoints[0], weights_only=True)["optimizer_states"][0]["param_groups"][0]["lr"]
