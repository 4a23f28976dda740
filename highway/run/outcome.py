"""Write what a run leaves: result.json, with everything needed to run it again, and arrays for figures."""

import logging
import platform
import traceback
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from highway.cards.metrics import METRICS
from highway.config.experiment import Experiment
from highway.config.project import project
from highway.config.trainer import Trainer
from highway.describe import parameter_counts
from highway.errors import Corrupt, Refused, Unwritable
from highway.ledger.directory import RunDirectory
from highway.ledger.files import written_atomically
from highway.ledger.identity import named_revisions
from highway.ledger.record import worse_than_counting, write_record
from highway.machine import commit, device_name
from highway.run import resources
from highway.run.checkpoint import Interrupted
from highway.run.devices import first_process
from highway.run.recorder import Diverged, Recorder

log = logging.getLogger("highway")
PACKAGES = ("torch", "pytorch-lightning", "hydra-core", "omegaconf", "numpy")
COMPILERS = ("torch._dynamo", "torch._inductor", "triton")  # modules whose exceptions say that compiling failed
MODELS = ("best", "last")  # the checkpoints of a run that are tested


class Outcome:
    """The end of a run. As a context, it records how its block ends, and raises again only what the user can mend."""

    def __init__(self, experiment: Experiment, directory: RunDirectory, command: str) -> None:
        self.directory = directory
        self.status = "failed"
        self.unwritable = False  # True if the run was interrupted by a file that cannot be written
        self.metrics: dict[str, dict[str, float]] = {}
        self.listeners: list[Callable[[dict[str, Any]], None]] = []
        self.recorder: Recorder | None = None
        self.content: dict[str, Any] = {
            "cell": directory.name,
            "revision": named_revisions(experiment.revisions()),
            "seed": experiment.seed,
            "budget": experiment.budget,
            "command": command,
        }
        self.experiment = experiment
        self.load_at_start = resources.load_average()

    def describe(
        self, data: dict[str, Any], model: nn.Module, recorder: Recorder, trainer: pl.Trainer, compiled: str | None
    ) -> None:
        """Add the data, the size of the model and the environment to the record.

        compiled: the mode of torch.compile in which it trains.
        """
        self.recorder, self.trainer = recorder, trainer
        self.content["data"] = data
        self.content["parameters"] = parameter_counts(model)
        self.content["environment"] = describe_environment(
            self.experiment, trainer.strategy.root_device.type, trainer.world_size, compiled
        )

    def __enter__(self) -> "Outcome":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        try:
            recorded = self._ended(error)
            if recorded and first_process():
                self.write()
        finally:
            self.close()
        if recorded:  # last: after a kill, the log must not claim a record that was never written
            remark = self.content["error"] or self._unlearned()
            log.info("%s: %s%s%s", self.directory.path, self.status, self._tested(), f" ({remark})" if remark else "")
        return recorded

    def _ended(self, error: BaseException | None) -> bool:
        """Record how the run ended. Return False if the exception must go on to the caller."""
        match error:
            case None:
                self.end("finished")
            case Interrupted() | Unwritable() | Corrupt():
                self.end("interrupted", str(error))
                self.unwritable = isinstance(error, Unwritable)
            case SystemExit():  # Lightning raises it on Ctrl-C if no step is running
                self.end("interrupted", "stopped")
            case Diverged():
                self.end("diverged", str(error))
            case Refused():  # the user can mend it, so it is not a result of the run
                return False
            case Exception():
                log.error("%s", "".join(traceback.format_exception(error)))
                self.end("failed", failure_message(error, self.experiment.trainer))
            case _:
                return False
        return True

    def end(self, status: str, error: str | None = None) -> None:
        """Add the status, the metrics and the cost to the record."""
        self.status = status
        self.content |= {"status": status, "error": error, "metrics": self.metrics}
        if self.recorder is not None:
            self.content |= {"steps": self.recorder.steps, "best_step": self.recorder.best_step}
            self.content["cost"] = self._cost(self.recorder)

    def _tested(self) -> str:
        """Return what the best model has on test, for the last line of the log; empty if nothing was tested."""
        cards = [card for name, card in METRICS.items() if name in self.metrics and card.measures_quality]
        tested = [card for card in cards if card.split in ("test", None)]
        values = [f"{card.full_title} {self.metrics[card.name]['best']:.{card.digits}f}" for card in tested]
        return f"; best model: {', '.join(values)}" if values else ""

    def _unlearned(self) -> str:
        """Return a remark if the best, or else the last, model is worse than counting; empty if neither is."""
        if self.status != "finished":
            return ""
        texts = [worse_than_counting(self.content, self.content["data"]["counting_loss"], name) for name in MODELS]
        return next((f"{name} model {text}" for name, text in zip(MODELS, texts, strict=True) if text), "")

    def close(self) -> None:
        """Tell the listeners how the run ended, also if it was refused half-way."""
        for listener in self.listeners:
            listener({**self.content, "status": self.status})

    def _cost(self, recorder: Recorder) -> dict[str, Any]:
        return {
            "seconds": round(recorder.seconds, 3),
            "tokens_per_second": round(recorder.tokens / max(recorder.seconds, 1e-9), 1),
            "peak_memory_bytes": resources.peak_memory_bytes(),
            "device": device_name(self.trainer.strategy.root_device.type),
            "exclusive": recorder.exclusive,
            "load_average": {"start": self.load_at_start, "end": resources.load_average()},
        }

    def write(self) -> None:
        """Write result.json. If that fails, the run counts as interrupted, and the next start resumes it."""
        try:
            write_record(self.directory.path, self.content)
        except Unwritable as error:  # the checkpoint holds what was trained
            if not self.unwritable:
                self.end("interrupted", str(error))
            self.unwritable = True


def describe_environment(experiment: Experiment, device: str, processes: int, compiled: str | None) -> dict[str, Any]:
    """Describe the code, packages, precision and threads of a run, for its record."""
    described = {}
    if user := project():
        described = {"project": {"package": user.package, "version": user.version, "git_commit": commit(user.folder)}}
    return {
        "git_commit": commit(),
        **described,
        "python": platform.python_version(),
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
        "precision": experiment.trainer.precision,
        "tf32": device == "cuda" and experiment.trainer.precision == "32",
        "compile": compiled,
        "threads": experiment.trainer.threads,
        "processes": processes,
    }


def failure_message(failure: Exception, trainer: Trainer) -> str:
    """Return why a run failed, in one line; with what to type if memory ran out, or a step could not be compiled."""
    text = f"{type(failure).__name__}: {failure}".splitlines()[0]
    if type(failure).__module__.startswith(COMPILERS):
        return f"the training step could not be compiled: type trainer.compile=null ({text})"
    if not out_of_memory(failure):
        return text
    where = "the GPU" if isinstance(failure, torch.OutOfMemoryError) else "this machine"
    less = f"{trainer.less_memory}, or trainer.evaluation_batch=1 if an evaluation needed the memory"
    return f"{where} ran out of memory: {less} ({text})"


def out_of_memory(failure: Exception) -> bool:
    """Return True if memory ran out, on a GPU or here."""
    return isinstance(failure, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(failure)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def save_probes(probes: dict[str, dict[str, Tensor]], folder: Path) -> None:
    """Save the arrays that figures need: one file per measurement, one array per location in the model."""
    for name, values in probes.items():
        arrays = {location: value.detach().float().cpu().numpy() for location, value in values.items()}
        with written_atomically(folder / f"{name}.npz") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
