"""Checkpoints that a run can be stopped at: at any step, by a signal, by a full disk, by kill -9.

`resume.ckpt` holds everything that the next start needs and is replaced whole, never in part; it is read
back with weights_only. `best.safetensors` holds the weights of the best validation, `last.safetensors` the
final ones, each with the configuration in its header.
"""

import signal
import time
from pathlib import Path
from types import FrameType
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.io import CheckpointIO
from safetensors.torch import load_file, save
from torch import nn

from highway.config.experiment import Experiment
from highway.errors import Refused
from highway.ledger.cell import Cell
from highway.ledger.files import written_atomically
from highway.run.recorder import Recorder


class Interrupted(Exception):
    """A signal asked the run to stop, or took one of its processes; it goes on from what is saved."""


class AtomicCheckpoints(CheckpointIO):
    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        with written_atomically(Path(path)) as file:
            torch.save(checkpoint, file)

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: Any = None) -> dict[str, Any]:
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            raise Refused(f"{path} is not a readable checkpoint; delete it to start the cell anew.") from error

    def remove_checkpoint(self, path: Any) -> None:
        Path(path).unlink(missing_ok=True)


class Checkpointer(pl.Callback):
    """Saves every `seconds`, after each validation, and when a signal asks the run to stop."""

    def __init__(self, cell: Cell, experiment: Experiment, recorder: Recorder, header: dict[str, str]) -> None:
        self.cell, self.header = cell, header
        self.seconds = experiment.trainer.checkpoint_seconds
        self.recorder = recorder
        self.stop_asked = False
        self._previous_handlers: dict[int, Any] = {}

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._saved_at = time.monotonic()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup means it
                self._previous_handlers[number] = signal.signal(number, self._ask_to_stop)

    def _ask_to_stop(self, number: int, frame: FrameType | None) -> None:
        if self.stop_asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.stop_asked = True

    def on_train_end(self, *_: Any) -> None:
        while self._previous_handlers:
            signal.signal(*self._previous_handlers.popitem())

    def on_exception(self, *_: Any) -> None:
        self.on_train_end()

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if self.recorder.validation_follows(trainer, self.recorder.steps):
            return  # the checkpoint after the validation holds its result too
        due = self.stop_asked or time.monotonic() - self._saved_at >= self.seconds
        if trainer.strategy.reduce_boolean_decision(due, all=False):
            self._save(trainer)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self.recorder.best_step == self.recorder.steps and trainer.is_global_zero:
            save_weights(pl_module.model, self.cell.best, self.header)  # type: ignore[arg-type]
        if trainer.state.fn == "fit":
            self._save(trainer)

    def _save(self, trainer: pl.Trainer) -> None:
        trainer.save_checkpoint(self.cell.checkpoint)
        self._saved_at = time.monotonic()
        if trainer.strategy.reduce_boolean_decision(self.stop_asked, all=False):
            raise Interrupted(f"stopped at step {self.recorder.steps}")


def save_weights(model: nn.Module, path: Path, header: dict[str, str]) -> None:
    """Weights alone, as safetensors, with the experiment's configuration and vocabulary in the file's header."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    with written_atomically(path) as file:
        file.write(save(tensors, metadata=header))


def load_weights(model: nn.Module, path: Path) -> None:
    tensors = load_file(path)
    own = model.state_dict()
    wrong = [name for name in own if name not in tensors or tensors[name].shape != own[name].shape]
    if wrong or len(tensors) != len(own):
        raise Refused(f"{path} holds another model: {(wrong or ['its parameters'])[0]} does not fit.")
    model.load_state_dict(tensors)
