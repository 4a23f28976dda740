"""The base class of all tasks: optimiser and schedule, a seed for every update, clipping, and evaluation by counts."""

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
    """The result of a training batch: the objective to differentiate, and the counts of the training loss shown."""

    objective: Tensor  # the loss, summed or averaged as the recipe says
    nats: Tensor  # sum over the scored units
    units: Tensor | float  # number of scored units


def rows_of(batch: Any, rows: slice) -> Any:
    """Return a batch with only these rows of its tensors; its other fields, which describe the whole batch, stay."""
    return type(batch)(*(field[rows] if isinstance(field, Tensor) else field for field in batch))


class Task(pl.LightningModule):
    """A Lightning module that trains and evaluates a model.

    A subclass implements `learn`, the loss of a training batch, and `score`, which adds to the counts of an evaluation.
    """

    counted: tuple[str, ...] = ("nats", "units")  # names of an evaluation's counts
    lengths_vary = False  # True if training batches differ in length

    def __init__(self, model: nn.Module, experiment: Experiment, steps_per_epoch: int, total_steps: int) -> None:
        super().__init__()
        self.model: Any = model
        self.experiment = experiment
        self.steps_per_epoch = steps_per_epoch
        self.total_steps = total_steps
        self.schedule = schedule_of(experiment.optimizer, total_steps)
        self.notes: dict[str, Any] = {}  # entries of result.json that are not numbers
        self.results_of: dict[str, dict[str, float]] = {}  # split -> metrics of its last evaluation
        self.part = 0  # the part of the batch that is being learnt, with trainer.accumulate above 1

    # For subclasses to implement or extend

    def learn(self, batch: Any) -> Learnt:
        """Compute the loss of a training batch, or of a part of it."""
        raise NotImplementedError

    def shown(self, loss: float) -> dict[str, float]:
        """Return a mean loss in nats under each of its names, converted where needed."""
        return {"loss": loss}

    def tokens(self, batch: Any) -> int:
        """Return the number of symbols that a batch trains on, over all devices."""
        raise NotImplementedError

    def score(self, batch: Any) -> None:
        """Evaluate a batch, and add its counts with `add`."""
        raise NotImplementedError

    def results(self, counts: dict[str, float]) -> dict[str, float]:
        """Compute the metrics of a split from its counts; the keys are kinds of metric."""
        return self.shown(counts["nats"] / counts["units"])

    def finished(self, data: ExperimentData) -> dict[str, float]:
        """Compute further metrics of a trained model; called for the last and for the best checkpoint."""
        return {}

    def observed(self, data: ExperimentData) -> dict[str, dict[str, Tensor]]:
        """Return arrays of a trained model for figures: name of the measurement -> location in the model -> array."""
        return probes_of(self.model)

    # Training

    @property
    def devices(self) -> int:
        return self.trainer.world_size if self._trainer is not None else 1

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return build_optimizer(self.model.parameters(), self.experiment.optimizer)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Seed each update by its number, so that a resumed run needs no stored RNG state; set its learning rate."""
        torch.manual_seed(step_seed(self.experiment.seed, self.global_step, self.global_rank))
        rate = self.schedule.rate(self.global_step, self.global_step // self.steps_per_epoch)
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = rate
        self.trainer.optimizers[0].zero_grad()

    def optimizer_zero_grad(self, *_: Any) -> None:
        """Do nothing: on_train_batch_start zeroes gradients before the first part, Lightning would after the last."""

    def training_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        """Learn a batch part by part: the backward passes run here, except the last part's, which Lightning runs.

        The objective of each part is scaled so that the gradients of all parts add up to that of the batch. On several
        devices the gradients are averaged once, in the backward pass of the last part.
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
        """Clip here: Lightning refuses to clip for a fused optimiser in bf16, although nothing needs unscaling."""
        self.prepare_gradients()

    def prepare_gradients(self) -> None:
        """Add weight decay to the gradients, then clip them."""
        prepare_gradients(self.model.parameters(), self.experiment.optimizer)

    # Evaluation: sums over all scored units, so the result does not depend on how they are batched

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
        """End the evaluations of all splits before this one; a device may have no batch of some splits."""
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

    # Checkpoints: state beyond weights, optimiser and position

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["task"] = {"schedule": self.schedule.state_dict()}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if "schedule" not in checkpoint["task"]:
            raise Refused("the checkpoints of this run were written by older code and cannot be resumed. Delete them.")
        self.schedule.load_state_dict(checkpoint["task"]["schedule"])


def step_seed(seed: int, step: int, rank: int) -> int:
    """Return the random seed of an update on a device."""
    digest = hashlib.sha256(f"{seed}/{step}/{rank}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
