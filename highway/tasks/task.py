"""What all tasks share: optimiser and schedule, a seed for every update, clipping, and how an evaluation ends."""

import hashlib
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from highway.config.experiment import Experiment
from highway.data.lanes import lanes_of
from highway.data.module import ExperimentData
from highway.describe import probes_of
from highway.errors import Refused
from highway.tasks.optimisation import build_optimizer, prepare_gradients, schedule_of


class Learnt(NamedTuple):
    """What a training batch gives: where the gradient comes from, and what is shown."""

    objective: Tensor  # whatever the recipe sums or averages
    nats: Tensor  # of the units scored
    units: Tensor | float  # how many


def rows_of(batch: Any, rows: slice) -> Any:
    """Some rows of a batch, with what it says of the whole batch."""
    return type(batch)(*(field[rows] if isinstance(field, Tensor) else field for field in batch))


class Task(pl.LightningModule):
    """A task gives `learn`, and adds what a batch scores to `self.counts` in `score`."""

    counted: tuple[str, ...] = ("nats", "units")  # what an evaluation counts
    lengths_vary = False  # from one training batch to the next

    def __init__(self, model: nn.Module, experiment: Experiment, steps_per_epoch: int, total_steps: int) -> None:
        super().__init__()
        self.model: Any = model
        self.experiment = experiment
        self.steps_per_epoch = steps_per_epoch
        self.total_steps = total_steps
        self.schedule = schedule_of(experiment.optimizer, total_steps)
        self.notes: dict[str, Any] = {}  # what result.json says beyond numbers
        self.results_of: dict[str, dict[str, float]] = {}  # what the last evaluation of each split gave
        self.part = 0  # of the batch at hand, which may be learnt part by part

    # What a task says of itself

    def learn(self, batch: Any) -> Learnt:
        raise NotImplementedError

    def shown(self, loss: float) -> dict[str, float]:
        """A mean loss under every name that it is shown by."""
        return {"loss": loss}

    def tokens(self, batch: Any) -> int:
        """How many symbols a batch trains on, on all devices."""
        raise NotImplementedError

    def score(self, batch: Any) -> None:
        raise NotImplementedError

    def results(self, counts: dict[str, float]) -> dict[str, float]:
        """What the counts of a whole split say, by kind of metric."""
        return self.shown(counts["nats"] / counts["units"])

    def finished(self, data: ExperimentData) -> dict[str, float]:
        """Metrics of a trained model beyond those; called for the last and for the best weights."""
        return {}

    def observed(self, data: ExperimentData) -> dict[str, dict[str, Tensor]]:
        """What is worth keeping of a trained model for figures: its name -> a place in the model -> an array."""
        return probes_of(self.model)

    # Training

    @property
    def devices(self) -> int:
        return self.trainer.world_size if self._trainer is not None else 1

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return build_optimizer(self.model.parameters(), self.experiment.optimizer)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Each update draws its dropout from its own seed, so that a resumed run needs no stored RNG state."""
        torch.manual_seed(step_seed(self.experiment.seed, self.global_step, self.global_rank))
        rate = self.schedule.rate(self.global_step, self.global_step // self.steps_per_epoch)
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = rate
        self.trainer.optimizers[0].zero_grad()

    def optimizer_zero_grad(self, *_: Any) -> None:
        """Done before the first part of a batch, since Lightning would do it after the last."""

    def training_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        """One part of the batch after another; Lightning goes back through the last, and updates once.

        Parts are shares as those of devices are, so their gradients add up to that of the batch. On several devices
        the gradients meet in the last part alone: Lightning's wrapper waits for what training_step returns.
        """
        nats: Tensor | float = 0.0
        units: Tensor | float = 0.0
        parts = min(self.experiment.trainer.accumulate, len(batch[0]))
        for self.part in range(parts):
            learnt = self.learn(rows_of(batch, lanes_of(len(batch[0]), self.part, parts)))
            nats, units = nats + learnt.nats.detach().double(), units + learnt.units
            if self.part + 1 < parts:
                learnt.objective.backward()
        return {"loss": learnt.objective, "nats": nats, "units": units}

    def configure_gradient_clipping(self, optimizer: torch.optim.Optimizer, *_: Any, **__: Any) -> None:
        """Here, since Lightning refuses to clip for a fused optimiser in bf16, where nothing needs unscaling."""
        self.prepare_gradients()

    def prepare_gradients(self) -> None:
        prepare_gradients(self.model.parameters(), self.experiment.optimizer)

    # Evaluation: counts over all scored units, exact for any grouping of batches

    def start_evaluation(self) -> None:
        self.counts = {name: torch.zeros((), dtype=torch.float64, device=self.device) for name in self.counted}

    def add(self, **counts: Tensor | int) -> None:
        for name, count in counts.items():
            self.counts[name] += count.double() if isinstance(count, Tensor) else count

    def _finish_evaluation(self, split: str) -> None:
        reduce = self.trainer.strategy.reduce
        self.results_of[split] = self.results(
            {name: float(reduce(count, reduce_op="sum")) for name, count in self.counts.items()}
        )

    @property
    def data(self) -> ExperimentData:
        return self.trainer.datamodule  # type: ignore[attr-defined]

    def on_validation_epoch_start(self) -> None:
        self.start_evaluation()
        self._split = 0

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._reach(dataloader_idx)
        self.score(batch)

    def _reach(self, split: int) -> None:
        """End the evaluations of the splits before; a device may have no batch of some."""
        while self._split < split:
            self._finish_evaluation(self.data.curves[self._split])
            self.start_evaluation()
            self._split += 1

    def on_validation_epoch_end(self) -> None:
        self._reach(len(self.data.curves) - 1)
        self._finish_evaluation(self.data.curves[-1])
        if self.trainer.state.fn == "fit" and self.global_step % self.steps_per_epoch == 0:
            self.schedule.epoch_ended(self.results_of[self.data.watched]["loss"])

    def on_test_epoch_start(self) -> None:
        self.start_evaluation()

    def test_step(self, batch: Any, batch_idx: int) -> None:
        self.score(batch)

    def on_test_epoch_end(self) -> None:
        self._finish_evaluation(self.data.tested)

    # What a checkpoint holds beyond weights, optimiser and position

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["task"] = {"schedule": self.schedule.state_dict()}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if "schedule" not in checkpoint["task"]:
            raise Refused("this cell's checkpoints are of older code, which cannot be gone on from: delete them.")
        self.schedule.load_state_dict(checkpoint["task"]["schedule"])


def step_seed(seed: int, step: int, rank: int) -> int:
    digest = hashlib.sha256(f"{seed}/{step}/{rank}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
