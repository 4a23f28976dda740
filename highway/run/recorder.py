"""Record a run as it happens: curves.csv, the clock, the best validation, divergence.

curves.csv has one row per measurement: step, epoch, seconds, tokens, split, metric, value. Seconds count training over
all starts of a run. A resumed run cuts off the rows after its checkpoint and continues.
"""

import csv
import io
import math
import os
import time
from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
import torch
from torch.nn.utils import get_total_norm

from highway.config.experiment import Experiment
from highway.describe import gates_of
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.ledger.files import append_text, file_sha256, write_text, writing
from highway.run import resources
from highway.tasks.task import Task

COLUMNS = ("step", "epoch", "seconds", "tokens", "split", "metric", "value")
HEADER = ",".join(COLUMNS) + "\n"
Row = dict[str, Any]


class Diverged(Exception):
    """The training loss is NaN or above trainer.diverged_above, or the validation loss is not finite."""


class Recorder(pl.Callback):
    state_key = "Recorder"  # the key of its state in checkpoints: Lightning would use the name of the class

    def __init__(self, directory: RunDirectory, experiment: Experiment, data_sha256: dict[str, str] | None) -> None:
        """Create the recorder of a run. data_sha256: that of each split of its data, if they have one."""
        self.run, self.path, self.data_sha256 = directory.id, directory.curves, data_sha256
        self.threads = experiment.trainer.threads
        self.curve_bytes = 0  # length of curves.csv at the checkpoint that the run resumes from
        self.log_every = experiment.trainer.log_every
        self.diverged_above = experiment.trainer.diverged_above
        self.listeners: list[Callable[[list[Row]], None]] = []
        self.seconds_before = 0.0  # seconds of training in earlier starts of this run
        self._started: float | None = None
        self._at_start = (0, 0.0)  # tokens and seconds at the beginning of this start
        self.neighbours: resources.Neighbours | None = None
        self.exclusive_before = True  # True if nothing else ran beside the run in its earlier starts
        self.tokens = 0
        self.steps = 0
        self.best: dict[str, float] = {"loss": math.inf}  # metrics of the best validation
        self.best_step = -1
        self.last_validation = -1  # step of the last validation; `validation` holds its metrics
        self.validation: dict[str, float] = {}
        self.train_loss = math.nan  # nats per unit, the mean since the row before
        self._nats: torch.Tensor | float = 0.0
        self._scored: torch.Tensor | float = 0.0
        self._norms: dict[str, torch.Tensor] = {}

    @property
    def seconds(self) -> float:
        """The seconds spent in training, validations included, over all starts of this run."""
        return self.seconds_before + self._elapsed

    @property
    def exclusive(self) -> bool:
        """True if nothing else ran beside this run in any of its starts.

        HIGHWAY_SLOTS is how many runs a launcher has at once.
        """
        alone = os.environ.get("HIGHWAY_SLOTS", "1") == "1"
        quiet = self.neighbours is None or self.neighbours.processors() < resources.QUIET
        return self.exclusive_before and alone and quiet

    @property
    def _elapsed(self) -> float:
        return 0.0 if self._started is None else time.monotonic() - self._started

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        self.trainer = trainer

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, Task)
        self._started = time.monotonic()
        self._gates = [weight for gate in gates_of(pl_module.model).values() for weight in gate.parameters()]
        self.neighbours = resources.Neighbours()
        self._at_start = (self.tokens, self.seconds_before)
        if trainer.is_global_zero:
            self._go_on_with_the_curve()

    def on_train_end(self, *_: Any) -> None:
        self.seconds_before, self._started = self.seconds, None

    def on_exception(self, *_: Any) -> None:
        self.on_train_end()

    def _go_on_with_the_curve(self) -> None:
        if not self.curve_bytes:
            write_text(self.path, HEADER)
            return
        with writing(self.path):
            os.truncate(self.path, self.curve_bytes)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        assert isinstance(pl_module, Task)
        self.steps = trainer.global_step
        self.tokens += outputs["tokens"]
        self._nats = self._nats + outputs["nats"].double()
        self._scored = self._scored + outputs["scored"]
        if self._row_follows(trainer, self.steps):
            self._write_training_row(trainer, pl_module)

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        pl_module.row_follows = self._row_follows(trainer, self.steps + 1)  # type: ignore[assignment]

    @torch.no_grad()
    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        """Compute the norm of the gradient before weight decay and clipping, and the norm of the gates' parameters."""
        assert isinstance(pl_module, Task)
        if pl_module.row_follows:
            gradients = [weight.grad for weight in pl_module.weights if weight.grad is not None]
            self._norms = {"gradient_norm": get_total_norm(gradients)}
            self._norms |= {"gate_norm": get_total_norm(self._gates)} if self._gates else {}

    def _row_follows(self, trainer: pl.Trainer, step: int) -> bool:
        last = step == trainer.num_training_batches
        return step % self.log_every == 0 or last or self.validation_follows(trainer, step)

    def validation_follows(self, trainer: pl.Trainer, step: int) -> bool:
        """Return True if Lightning validates after this step. After the last step, it does so only at a multiple."""
        return step % int(trainer.val_check_batch or 1) == 0

    def _write_training_row(self, trainer: pl.Trainer, module: Task) -> None:
        nats, scored = self._counted()
        self.train_loss = nats / scored
        self._nats = self._scored = 0.0
        self.write(trainer, module, "train", module.loss_metrics(self.train_loss))
        if not self.train_loss <= self.diverged_above:  # also true for NaN
            raise Diverged(f"training loss {self.train_loss:g} at step {self.steps}")

    def _counted(self) -> tuple[float, float]:
        """Return the nats and the scored positions since the last row, summed over all devices."""
        strategy = self.trainer.strategy
        sums = torch.tensor([float(self._nats), float(self._scored)], dtype=torch.float64, device=strategy.root_device)
        nats, scored = strategy.reduce(sums, reduce_op="sum").tolist()  # it works in place, so on a copy
        return nats, scored

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, Task)
        self.last_validation, self.validation = self.steps, pl_module.results_of[pl_module.data.watched]
        for split in pl_module.data.curves:
            self.write(trainer, pl_module, split, pl_module.results_of[split])
        loss = self.validation["loss"]
        if not math.isfinite(loss):
            raise Diverged(f"validation loss {loss:g} at step {self.steps}")
        if loss < self.best["loss"]:
            self.best, self.best_step = self.validation, self.steps

    def write(self, trainer: pl.Trainer, module: Task, split: str, values: dict[str, float]) -> None:
        if not trainer.is_global_zero:
            return
        position = {
            "step": self.steps,
            "epoch": round(self.steps / module.steps_per_epoch, 6),
            "seconds": round(self.seconds, 3),
            "tokens": self.tokens,
            "split": split,
        }
        if split == "train":
            values = {**values, "learning_rate": trainer.optimizers[0].param_groups[0]["lr"]}
            values |= {name: float(norm) for name, norm in self._norms.items()}
        rows = [{**position, "metric": name, "value": value} for name, value in values.items()]
        text = io.StringIO()
        csv.DictWriter(text, COLUMNS, lineterminator="\n").writerows(rows)
        append_text(self.path, text.getvalue())
        for listener in self.listeners:
            listener(rows)

    @property
    def tokens_per_second(self) -> float:
        """The tokens per second of training in this start, validations included."""
        tokens, seconds = self._at_start
        return (self.tokens - tokens) / max(self.seconds - seconds, 1e-9)

    def state_dict(self) -> dict[str, Any]:
        nats, scored = self._counted()
        return {
            "run": self.run,
            "texts": self.data_sha256,
            "threads": self.threads,
            "curve_bytes": self.path.stat().st_size,
            "curve_sha256": file_sha256(self.path),
            "seconds": self.seconds,
            "exclusive": self.exclusive,
            "tokens": self.tokens,
            "steps": self.steps,
            "best": self.best,
            "best_step": self.best_step,
            "last_validation": self.last_validation,
            "validation": self.validation,
            "train_loss": self.train_loss,
            "nats": nats,
            "units": scored,  # the name that checkpoints have
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["texts"] != self.data_sha256:
            raise Refused(
                f"The data have changed since step {state['steps']} of {self.path.parent}. Restore them, or move that "
                "directory away to train on the new data."
            )
        self.seconds_before, self.exclusive_before = state["seconds"], state["exclusive"]
        self.curve_bytes = state["curve_bytes"]
        self.tokens, self.steps = state["tokens"], state["steps"]
        self.best, self.best_step = dict(state["best"]), state["best_step"]
        self.last_validation, self.validation = state["last_validation"], dict(state["validation"])
        self.train_loss = state["train_loss"]
        if self.trainer.is_global_zero:  # the sums cover all devices
            self._nats, self._scored = state["nats"], state["units"]
