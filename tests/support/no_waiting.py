"""A callback that lets a run fail if an update asks the device for a value, unless a row of the curve follows it.

A GPU computes while Python runs ahead. Reading a value makes Python wait until everything before it has been computed.
"""

from typing import Any

import pytest
import pytorch_lightning as pl
import torch

READING = ("item", "tolist", "cpu", "numpy", "__float__", "__int__", "__bool__", "__index__")


class NoWaiting(pl.Callback):
    """Watches updates, from the hook before the first of ours to the one after the last."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.watching, self.watched = False, 0
        for name in READING:
            monkeypatch.setattr(torch.Tensor, name, self._refusing(name))

    def _refusing(self, name: str) -> Any:
        plain = getattr(torch.Tensor, name)

        def read(tensor: torch.Tensor, *arguments: Any, **more: Any) -> Any:
            assert not self.watching, f"an update calls Tensor.{name}"
            return plain(tensor, *arguments, **more)

        return read

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: Any, *_: Any) -> None:
        warm = trainer.global_step > (
            10 if torch.cuda.is_available() else 2
        )  # compilers and libraries look at values in the first updates
        self._watch(warm and not pl_module.row_follows)

    def on_train_batch_end(self, *_: Any) -> None:
        self.watched += self.watching
        self._watch(False)

    def on_exception(self, *_: Any) -> None:
        self._watch(False)

    def _watch(self, watching: bool) -> None:
        self.watching = watching
        if torch.cuda.is_available():
            torch.cuda.set_sync_debug_mode("error" if watching else "default")
