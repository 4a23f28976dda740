"""A backbone, a task and a state gate from outside the project are added with one file and one card each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from measuring import timed
from torch import nn

from highway.cards.datasets import DATASETS
from highway.cards.gates import GATES
from highway.cards.models import MODELS
from highway.cards.tasks import TASKS
from highway.config.experiment import Experiment
from highway.describe import named_parameters
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.models.initial import LikeTorch, initialise
from highway.run import build
from highway.run.checkpoint import load_weights, read_weights, save_weights
from highway.testing.runs import assert_resumes_exactly, curve, trained
from highway.timing.stopwatch import Entry, operations
from tests.guests import leaky, parity, steps

Compose = Callable[..., Experiment]
CONF = f"hydra.searchpath=[file://{Path(__file__).parents[1] / 'guests' / 'conf'}]"
TEXT = (
    "dataset.source=sample",
    "dataset.carry_state=true",
    "dataset.train={lanes:4,window:6,stride:6,scored:6}",
    "dataset.evaluation={lanes:40,window:20,stride:20,scored:20}",
)
FEW = ("trainer.max_steps=9", "trainer.validate_every=4", "trainer.log_every=3", "trainer.threads=1")
ON = {"text": TEXT, "bits": ("dataset=parity",)}


@pytest.fixture(autouse=True)
def _guests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "steps", steps.CARD)
    monkeypatch.setitem(TASKS, "parity", parity.TASK)
    monkeypatch.setitem(DATASETS, "parity", parity.DATASET)
    monkeypatch.setitem(GATES["state"], "leaky", leaky.CARD)


@pytest.fixture
def guest(tiny: Compose, experiment: Compose) -> Compose:
    """Compose experiments with the guest backbone.

    `tiny` is used only for its small corpus: its overrides fit a Transformer.
    """
    return lambda *arguments: experiment(CONF, "model=steps", *FEW, "trainer.accelerator=cpu", *arguments)


@pytest.mark.parametrize("gate", ["none", "leaky"])
@pytest.mark.parametrize("task", ON)
def test_a_backbone_serves_two_tasks_and_resumes_exactly(guest: Compose, tmp_path: Path, task: str, gate: str) -> None:
    overrides = (*ON[task], f"gate={gate}")
    whole, result = trained(guest(*overrides))
    assert result["parameters"]["gate"] == (gate == "leaky")
    described = guest(*overrides, f"outputs_dir={tmp_path / 'stopped'}")
    cell = assert_resumes_exactly(described, (2, 7), whole, result)
    if gate == "leaky":
        leaks = np.load(cell.path / "probes" / "leaks.npz")
        assert leaks.files == ["gate"] and leaks["gate"] != 2.0


def test_a_state_gate_changes_the_cell(guest: Compose) -> None:
    plain, gated = (RunDirectory.of(guest(*TEXT, f"gate={gate}")).name for gate in ("none", "leaky"))
    assert plain != gated
    assert RunDirectory.of(guest(*TEXT, "layers=none")).name == plain, "it has no layers to choose among"


def test_what_does_not_fit_the_guest_is_refused(guest: Compose, tiny: Compose) -> None:
    sentence = r"steps has no location for the residual gate sdu\. Models that have one: transformer, r_transformer"
    with pytest.raises(Refused, match=sentence):
        guest(*TEXT, "gate=sdu_tanh")
    sentence = r"transformer has no location for the state gate leaky\. Models that have one: recurrent, rhn, steps"
    with pytest.raises(Refused, match=sentence):
        tiny(CONF, "gate=leaky")
    with pytest.raises(Refused, match="encoder_decoder reads a source and its target, and parity is parity data"):
        guest("model=encoder_decoder", "dataset=parity")


def test_no_validation_split_is_recorded_as_such(guest: Compose) -> None:
    """Without a validation split, the best weights are those of the best test value.

    A loss that is summed over thousands is no divergence.
    """
    cell, result = trained(guest("dataset=parity"))
    assert set(result["metrics"]) == {"test_loss", "test_accuracy", "train_seconds"}
    assert result["data"]["validation"] == "none: best is by test"
    assert "vocabulary_sha256" not in result["data"]
    assert {row[3] for row in curve(cell)} == {"train", "test"}
    losses = [float(row[-1]) for row in curve(cell) if row[3:5] == ["test", "loss"]]
    assert result["metrics"]["test_loss"]["best"] == min(losses)
    assert all(float(row[-1]) < 2 for row in curve(cell) if row[3:5] == ["train", "loss"])


@pytest.mark.parametrize("task", ON)
def test_it_is_benchmarked(guest: Compose, task: str) -> None:
    entry = Entry("32", guest(*ON[task], "gate=leaky"), "cpu")
    batch = entry.batch()
    (row,) = timed([entry.build()], batch, build.task(entry.shape).tokens(batch), 2, "cpu")
    assert row["contender"] == "ours with leaky, 32" and row["tokens_per_second"] > 0
    width, positions = 8, 24 if task == "text" else 48
    recurrence = 3 * 2 * positions * 2 * 3 * width * width  # forward and backward, two maps of three gates
    assert 0.9 * recurrence < operations(entry) < 4 * recurrence


def test_state_carried_is_the_whole_at_once(guest: Compose) -> None:
    model = build.model(guest(*TEXT)).double().eval()
    tokens = torch.randint(27, (3, 12))
    state, pieces = None, []
    for start in range(0, 12, 4):
        features, state = model(tokens[:, start : start + 4], state)
        pieces.append(features)
    torch.testing.assert_close(torch.cat(pieces, 1), model(tokens)[0])


def test_its_names_are_flat(guest: Compose, tmp_path: Path) -> None:
    model = build.model(guest(*TEXT))
    names = ["output_bias", "embedding.weight", "reads.weight", "reads.bias", "recurs.weight"]
    assert list(named_parameters(model)) == names
    save_weights(model, tmp_path / "weights", {"run": "x/seed1", "config": ""}, 0)
    assert set(read_weights(tmp_path / "weights")[0]) == set(names)
    other = build.model(guest(*TEXT, "seed=2"))
    load_weights(other, tmp_path / "weights")
    assert all(
        torch.equal(parameter, theirs) for parameter, theirs in zip(model.parameters(), other.parameters(), strict=True)
    )


def test_a_declared_start_may_be_a_function() -> None:
    class Counted(nn.Module):
        starts = {"counts": lambda drawn, generator: drawn.copy_(torch.arange(3.0))}

        def __init__(self) -> None:
            super().__init__()
            self.counts = nn.Parameter(torch.empty(3))

    counted = Counted()
    initialise(counted, 1, LikeTorch(0.1))
    assert counted.counts.tolist() == [0, 1, 2]


@pytest.mark.parametrize("overrides", [(), ("model=transformer_xl", "dataset=enwik8")], ids=["like_torch", "normal"])
def test_a_parameter_without_a_declared_start_is_refused(
    experiment: Compose, monkeypatch: pytest.MonkeyPatch, overrides: tuple[str, ...]
) -> None:
    class Silent(nn.Module):
        def __init__(self, *_: Any) -> None:
            super().__init__()
            self.alpha = nn.Parameter(torch.empty(1))

    monkeypatch.setattr("highway.gates.residual.Sum", Silent)
    with pytest.raises(TypeError, match=r"Silent\.alpha has no declared start"):
        build.model(experiment("dataset.source=sample", *overrides))
