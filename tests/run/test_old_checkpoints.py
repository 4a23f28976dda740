"""A run that commit a4d60ae interrupted goes on with today's code (tests/fixtures/a4d60ae, written by that commit).

Its Transformer-XL carries a memory, Adam has averages, dropout draws numbers, and the schedule has seen a validation.
What the checkpoint holds must arrive bit for bit on any machine. Processors round differently, so the steps after it
must be those of a4d60ae bit for bit only on a machine that also repeats its first thirteen steps bit for bit.
"""

import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from safetensors.torch import load_file

from highway.config.experiment import Experiment
from highway.data import sample
from highway.describe import named_parameters
from highway.ledger.directory import RunDirectory
from highway.run.recorder import Recorder
from highway.testing.runs import StopAt, curve, trained

WRITTEN = Path(__file__).parents[1] / "fixtures" / "a4d60ae"
STOPPED, STEPS = 13, 27
ROUNDING = 1e-6  # a processor without AVX-512, or without vector instructions at all, ends 1.2e-7 away
NAME = "transformer_xl-152405c96408"  # of the run directory at commit a4d60ae
OVERRIDES = (
    "budget=smoke",
    "trainer.accelerator=cpu",
    "trainer.threads=1",
    "model=transformer_xl",
    "gate=sdu_tanh",
    "model.layers=2",
    "model.width=8",
    "model.heads=2",
    "model.head_width=4",
    "model.feed_forward=16",
    "model.dropout=0.2",
    "dataset=ptb_char",
    "dataset.carry_state=true",
    "dataset.train={lanes:16,window:40,stride:40,scored:40,memory:16}",
    "dataset.evaluation={lanes:8,window:40,stride:40,scored:40,memory:24}",
    "optimizer=adam",
    "optimizer.lr=0.01",
    "optimizer.schedule=plateau",
    "optimizer.plateau={after_epoch:0,window:1,divide_by:2,strict:false}",
    "trainer.max_epochs=3",
    "trainer.max_steps=null",
    "trainer.validate_every=null",
    "trainer.log_every=2",
)


class Loaded(pl.Callback):
    """Keeps what a resumed run has loaded when its training starts."""

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self.weights = {f"model.{name}": weight.clone() for name, weight in named_parameters(pl_module.model).items()}
        self.optimizer = deepcopy(trainer.optimizers[0].state_dict())
        self.task = {"schedule": deepcopy(pl_module.schedule.state_dict()), "state": deepcopy(pl_module.states[0])}
        self.position = trainer.train_dataloader.position


@pytest.fixture
def described(
    experiment: Callable[..., Experiment], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[str], Experiment]:
    """Return a function that describes the run of the fixture, in a folder of this name."""
    monkeypatch.setattr(sample, "SENTENCES", {"train": 40, "valid": 20, "test": 20})
    sample.penn_treebank.cache_clear()
    return lambda outputs: experiment(*OVERRIDES, f"outputs_dir={tmp_path / outputs}")


def test_a_checkpoint_of_a4d60ae_resumes(
    described: Callable[[str], Experiment], caplog: pytest.LogCaptureFixture
) -> None:
    directory, loaded = RunDirectory.of(described("resumed")), Loaded()
    assert directory.name == NAME
    shutil.copytree(WRITTEN, directory.path, ignore=shutil.ignore_patterns("ended"))
    (checkpoint,) = directory.checkpoints
    content = torch.load(checkpoint, weights_only=True)
    _, result = trained(described("resumed"), loaded)
    assert (result["status"], result["steps"]) == ("finished", STEPS)
    assert "trained again" not in caplog.text, "the checkpoint counts as corrupt"
    assert directory.curves.read_text().startswith((WRITTEN / "curves.csv").read_text()), "it started at another step"

    assert loaded.position == STOPPED
    written = {"weights": content["state_dict"], "optimizer": content["optimizer_states"][0], "task": content["task"]}
    for name, values in written.items():
        torch.testing.assert_close(getattr(loaded, name), values, rtol=0, atol=0)

    stopped, _ = trained(described("afresh"), StopAt(STOPPED))
    (newest, *_) = stopped.checkpoints
    afresh = torch.load(newest, weights_only=True)
    assert afresh.keys() == content.keys()
    alike = all(torch.equal(tensor, afresh["state_dict"][name]) for name, tensor in content["state_dict"].items())
    ended, expected = load_file(directory.last), load_file(WRITTEN / "ended" / "last.safetensors")
    torch.testing.assert_close(ended, expected, rtol=0, atol=0 if alike else ROUNDING)
    ours, theirs = curve(directory), curve(RunDirectory(WRITTEN / "ended"))
    assert [row[:-1] for row in ours] == [row[:-1] for row in theirs]
    values = [[float(row[-1]) for row in rows] for rows in (ours, theirs)]
    assert values[0] == pytest.approx(values[1], rel=0 if alike else 10 * ROUNDING)


def test_renaming_a_class_leaves_checkpoints_readable(
    described: Callable[[str], Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(described("outputs"), StopAt(STOPPED))
    monkeypatch.setattr("highway.train.Recorder", type("Renamed", (Recorder,), {}))
    loaded = Loaded()
    _, result = trained(described("outputs"), loaded)
    assert (result["status"], loaded.position) == ("finished", STOPPED)
