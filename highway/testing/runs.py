"""Train runs in this process, and read what they left behind."""

import csv
import logging
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
import torch
from safetensors.torch import load_file

from highway.config.experiment import Experiment
from highway.ledger.directory import RunDirectory
from highway.ledger.files import read_json
from highway.training import run

if TYPE_CHECKING:
    import pytest


class At(pl.Callback):
    """Calls a function during step `step`."""

    def __init__(self, step: int, does: Callable[[], Any]) -> None:
        self.step, self.does = step, does

    def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step == self.step - 1:
            self.does()


class StopAt(At):
    """Sends a signal to this process during step `step`."""

    def __init__(self, step: int, number: signal.Signals = signal.SIGTERM) -> None:
        super().__init__(step, lambda: os.kill(os.getpid(), number))


def trained(experiment: Experiment, *callbacks: pl.Callback) -> tuple[RunDirectory, dict[str, Any]]:
    """Train a run; return it and its record."""
    directory = RunDirectory.of(experiment)
    run(experiment, directory, "test", callbacks)
    return directory, read_json(directory.path / "result.json")


def curve(directory: RunDirectory) -> list[list[str]]:
    """Return the rows of curves.csv without the clock."""
    with open(directory.curves, newline="") as file:
        return [[value for name, value in row.items() if name != "seconds"] for row in csv.DictReader(file)]


def same_weights(first: Path, second: Path) -> bool:
    """Compare two files of weights bit for bit."""
    weights, others = load_file(first), load_file(second)
    return weights.keys() == others.keys() and all(torch.equal(weights[name], others[name]) for name in weights)


def said(caplog: "pytest.LogCaptureFixture", words: str) -> bool:
    """Return True if a warning has these words."""
    return any(words in record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)


def numbers(result: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics of a record without the clock."""
    return {name: value for name, value in result["metrics"].items() if not name.endswith("_seconds")}


def assert_resumes_exactly(
    stopped: Experiment,
    steps: Iterable[int],
    whole: RunDirectory,
    result: dict[str, Any],
) -> RunDirectory:
    """Stop a run at each of these steps and resume it; check that it ends as the undisturbed run `whole` did.

    Weights agree bit for bit, curves row for row, and `result`, the record of `whole`, metric by metric.
    """
    assert result["status"] == "finished", result["error"]
    for step in steps:
        _, record = trained(stopped, StopAt(step))
        assert (record["status"], record["steps"]) == ("interrupted", step)
    directory, resumed = trained(stopped)
    assert resumed["status"] == "finished", resumed["error"]
    assert same_weights(whole.last, directory.last)
    assert same_weights(whole.best, directory.best)
    assert curve(whole) == curve(directory)
    assert numbers(resumed) == numbers(result)
    return directory
