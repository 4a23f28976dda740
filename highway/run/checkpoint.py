"""Save checkpoints from which a run resumes, whatever stopped it: a signal at any step, a full disk, kill -9.

`resume-<step>.<checksum>.ckpt` holds everything that the next start needs. It is written whole or not at all, the
checkpoint before it is kept, and it is read with weights_only. `best.safetensors` holds the weights of the best
validation, `last.safetensors` the final weights. The header of each has the run, its configuration, the step and a
checksum.

A checkpoint, the curve and the best weights belong together. If one of them is missing or corrupt, the run resumes from
a point that does not need it: the checkpoint before, or the start. It trains only the lost steps again.
"""

import hashlib
import json
import logging
import math
import signal
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from pickle import UnpicklingError
from types import FrameType
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.io import CheckpointIO
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from highway.config.experiment import Experiment
from highway.describe import flat
from highway.errors import Corrupt, Refused
from highway.ledger.directory import RunDirectory, step_of
from highway.ledger.files import check_name, written_atomically
from highway.run.recorder import Recorder

log = logging.getLogger("highway")
KEPT = 2  # checkpoints; if one is corrupt, the steps since the one before it are lost


class Interrupted(Exception):
    """The run stopped early: a signal asked it to, or killed one of its processes. It can resume from what is saved."""


class AtomicCheckpoints(CheckpointIO):
    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        with written_atomically(Path(path), checksum_in_name=True) as file:
            torch.save(checkpoint, file)

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: Any = None) -> dict[str, Any]:
        return read_checkpoint(path)

    def remove_checkpoint(self, path: Any) -> None:
        Path(path).unlink(missing_ok=True)


class Checkpointer(pl.Callback):
    """Save a checkpoint every `seconds`, after each validation, and when a signal asks the run to stop."""

    def __init__(
        self, directory: RunDirectory, experiment: Experiment, recorder: Recorder, vocabulary: str | None
    ) -> None:
        """Create the callback. vocabulary: the sha256 of the vocabulary of the data, if it has one."""
        self.directory, self.vocabulary = directory, vocabulary
        self.seconds = experiment.trainer.checkpoint_seconds
        self.recorder = recorder
        self.stop_asked = False
        self._readable = False  # until the first checkpoint has been read back
        self._previous_handlers: dict[int, Any] = {}

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.strategy.broadcast(self.recorder.steps) != self.recorder.steps:
            raise Interrupted("the processes see different checkpoints: use an outputs folder that all of them share")
        self._saved_at = time.monotonic()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup asks to ignore it
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
            self.save_run_weights(pl_module.model, self.directory.best)  # type: ignore[arg-type]
        if trainer.state.fn == "fit":
            self._save(trainer)

    def save_run_weights(self, model: nn.Module, path: Path) -> None:
        """Save the weights of the model with the run, its configuration and its vocabulary in their header."""
        save_weights(model, path, self.header, self.recorder.steps)

    @cached_property
    def header(self) -> dict[str, str]:
        """The header of weights without their step. The first process alone has it, because it writes config.yaml."""
        vocabulary = {"vocabulary_sha256": self.vocabulary} if self.vocabulary else {}
        return {"run": self.directory.id, "config": self.directory.config.read_text(encoding="utf-8"), **vocabulary}

    def _save(self, trainer: pl.Trainer) -> None:
        trainer.save_checkpoint(self.directory.best.with_name(f"resume-{self.recorder.steps}.ckpt"))
        if trainer.is_global_zero:
            if not self._readable:
                check_readable(self.directory.checkpoints[0])
                self._readable = True
            for old in self.directory.checkpoints[KEPT:]:
                old.unlink(missing_ok=True)
        self._saved_at = time.monotonic()
        if trainer.strategy.reduce_boolean_decision(self.stop_asked, all=False):
            raise Interrupted(f"stopped at step {self.recorder.steps}")


def read_checkpoint(path: Any, mmap: bool = False) -> dict[str, Any]:
    """Read a checkpoint into main memory, so that a run that began on a GPU can go on without one.

    mmap: leave the tensors on disk until they are used; a check uses none.
    """
    return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)


def check_readable(path: Path) -> None:
    """Refuse a checkpoint from which no run could resume, because a callback or an optimiser has a strange state."""
    try:
        read_checkpoint(path, mmap=True)
    except UnpicklingError as error:
        raise Refused(
            "this run could not resume from its checkpoints: the state of a callback or an optimiser may hold only "
            "tensors, numbers, texts, lists and dictionaries. Change its state_dict."
        ) from error


class Resume(NamedTuple):
    """The checkpoint from which a run resumes."""

    path: Path
    threads: int  # number of threads at the first start: bit-equality depends on it


def resumable(directory: RunDirectory, forget: bool = True) -> Resume | None:
    """Return the newest checkpoint that is intact and has its curve and best weights; None if there is none.

    forget: True renames those that cannot be used, so that no later start tries them again.
    """
    for path in directory.checkpoints:
        try:
            return Resume(path, _checked(path, directory)["threads"])
        except (Corrupt, FileNotFoundError) as error:  # another process may delete it at this moment
            log.warning("%s; the steps since the checkpoint before it are trained again.", error)
            if forget:
                with suppress(FileNotFoundError):
                    mark_unusable(path)
    return None


def _checked(path: Path, directory: RunDirectory) -> dict[str, Any]:
    """Return the recorder's state in a checkpoint. Raise Corrupt if it, its curve or its best weights do not fit."""
    check_name(path)
    try:
        known = read_checkpoint(path, mmap=True)["callbacks"][Recorder.state_key]
        run, best_step = known["run"], known["best_step"]
        curve_bytes, curve_sha256 = known["curve_bytes"], known["curve_sha256"]
    except Exception as error:  # a foreign file with a correct name can make torch raise anything
        raise Corrupt(f"{path} is no checkpoint of ours ({type(error).__name__})") from error
    if run != directory.id:
        raise Corrupt(f"{path} belongs to {run}")
    curve = directory.curves.read_bytes()[:curve_bytes] if directory.curves.exists() else b""
    if hashlib.sha256(curve).hexdigest() != curve_sha256:
        raise Corrupt(f"{directory.curves} is not what it was at step {step_of(path)}")
    if best_step >= 0:
        # Weights of later steps are fine, because the run repeats those steps
        check_weights(directory.best, directory.id, best_step, or_after=step_of(path))
    return known


def mark_unusable(path: Path) -> None:
    """Rename a checkpoint to unusable-<name>, which nothing reads."""
    path.replace(path.with_name(f"unusable-{path.name}"))


def save_weights(model: nn.Module, path: Path, header: dict[str, str], step: int) -> None:
    """Save the weights of a model as safetensors, without any other state.

    header: the run, its configuration, and the checksum of the vocabulary if there is one. The step and a checksum are
    added.
    """
    tensors = {flat(name): tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    header = {**header, "step": str(step)}
    with written_atomically(path) as file:
        file.write(_ordered(save(tensors, metadata={**header, "sha256": _sha256(tensors, header)})))


def _ordered(content: bytes) -> bytes:
    """Sort the header of a .safetensors file. The library writes it in an order that differs from call to call."""
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8:start]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)  # the format aligns the tensors to 8 bytes
    return len(header).to_bytes(8, "little") + header + content[start:]


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors of a weights file, and its header. Raise Corrupt if the file is corrupt or not one of ours."""
    try:
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, FileNotFoundError) as error:
        raise Corrupt(f"{path} is corrupt, or not a file of weights.") from error
    if not {"run", "config", "step", "sha256"} <= set(header):
        raise Corrupt(f"{path} does not name the run of its weights. Use a file that this project has saved.")
    if header["sha256"] != _sha256(tensors, header):
        raise Corrupt(f"{path} is corrupt: its sha256 is not the one that it states.")
    return tensors, header


def _sha256(tensors: dict[str, Tensor], header: dict[str, str]) -> str:
    digest = hashlib.sha256()
    for key in sorted(header.keys() - {"sha256"}):
        digest.update(f"{key}={header[key]}\0".encode())
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {list(tensors[name].shape)}\0".encode())
        digest.update(tensors[name].flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def check_weights(path: Path, run: str, step: int, or_after: float = math.inf) -> dict[str, Tensor]:
    """Return the weights in a file.

    Raise Corrupt unless they are of this run, and of this step or of any step above `or_after`.
    """
    tensors, header = read_weights(path)
    if header["run"] != run:
        raise Corrupt(f"{path} belongs to {header['run']}")
    saved = int(header["step"])
    if saved != step and not saved > or_after:
        raise Corrupt(f"{path} has the weights of step {saved}, not of step {step}")
    return tensors


def put_into(model: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
    """Load tensors into a model. Refuse those of another model; `path` is their file, for the message."""
    shapes = {flat(name): tensor.shape for name, tensor in model.state_dict().items()}
    wrong = [name for name, shape in shapes.items() if name not in tensors or tensors[name].shape != shape]
    if wrong or len(tensors) != len(shapes):
        raise Refused(f"{path} holds another model: {(wrong or ['its parameters'])[0]} does not fit.")
    model.load_state_dict({name: tensors[flat(name)] for name in model.state_dict()})


def load_weights(model: nn.Module, path: Path, run: str | None = None, step: int = -1) -> None:
    """Load the weights in a file into a model. Raise Corrupt if a run is given and they are of another run or step."""
    put_into(model, read_weights(path)[0] if run is None else check_weights(path, run, step), path)
