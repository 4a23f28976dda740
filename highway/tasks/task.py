"""What all tasks share: optimiser and schedule, a seed for every update, clipping, and how an evaluation ends."""

import hashlib
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from highway.config.schema import Experiment
from highway.data.module import ExperimentData
from highway.tasks.optimisation import PlateauRule, build_optimizer, rate_at


class Task(pl.LightningModule):
    """A task gives `training_step`, and adds what a batch scores to `self.sums` in `score`."""

    def __init__(self, model: nn.Module, experiment: Experiment, steps_per_epoch: int, total_steps: int) -> None:
        super().__init__()
        self.model: Any = model
        self.experiment = experiment
        self.steps_per_epoch = steps_per_epoch
        self.total_steps = total_steps
        self.plateau = PlateauRule(experiment.optimizer.plateau, experiment.optimizer.lr)
        self.notes: dict[str, Any] = {}  # what result.json says beyond numbers
        self.evaluated: dict[str, dict[str, float]] = {}  # what the last evaluation of each split gave

    # What a task says of itself

    def shown(self, loss: float) -> dict[str, float]:
        """A training loss under every name that it is shown by."""
        return {"loss": loss}

    def tokens(self, batch: Any) -> int:
        """How many symbols a batch trains on, on all devices."""
        raise NotImplementedError

    def score(self, batch: Any) -> None:
        raise NotImplementedError

    def results(self, sums: list[float]) -> dict[str, float]:
        """What the sums of a whole split say."""
        raise NotImplementedError

    def finished(self, data: ExperimentData) -> dict[str, float]:
        """Metrics of a trained model beyond loss; called for the last and for the best weights."""
        return {}

    # Training

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return build_optimizer(self.model.parameters(), self.experiment.optimizer)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Each update draws its dropout from its own seed, so that a resumed run needs no stored RNG state."""
        torch.manual_seed(step_seed(self.experiment.seed, self.global_step, self.global_rank))
        if self.experiment.optimizer.schedule != "plateau":
            self._set_rate(rate_at(self.global_step, self.experiment.optimizer, self.total_steps))

    def configure_gradient_clipping(self, optimizer: torch.optim.Optimizer, *_: Any, **__: Any) -> None:
        """Here, since Lightning refuses to clip for a fused optimiser in bf16, where nothing needs unscaling."""
        if self.experiment.optimizer.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.experiment.optimizer.clip)

    def _set_rate(self, rate: float) -> None:
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = rate

    # Evaluation: sums over all scored symbols, exact for any grouping of batches

    def start_evaluation(self) -> None:
        self.sums = torch.zeros(3, dtype=torch.float64, device=self.device)

    def add(self, *values: Tensor | int) -> None:
        """To the sums that `results` reads: three at the most."""
        for place, value in enumerate(values):
            self.sums[place] += value.double() if isinstance(value, Tensor) else value

    def _finish_evaluation(self, split: str) -> None:
        self.evaluated[split] = self.results(self.trainer.strategy.reduce(self.sums, reduce_op="sum").tolist())

    def on_validation_epoch_start(self) -> None:
        self.start_evaluation()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.score(batch)

    def on_validation_epoch_end(self) -> None:
        self._finish_evaluation("valid")
        epoch_ends = self.trainer.state.fn == "fit" and self.global_step % self.steps_per_epoch == 0
        if epoch_ends and self.experiment.optimizer.schedule == "plateau":
            self._set_rate(self.plateau.update(self.evaluated["valid"]["loss"]))

    def on_test_epoch_start(self) -> None:
        self.start_evaluation()

    def test_step(self, batch: Any, batch_idx: int) -> None:
        self.score(batch)

    def on_test_epoch_end(self) -> None:
        self._finish_evaluation("test")

    # What a checkpoint holds beyond weights, optimiser and position

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["task"] = {"plateau": self.plateau.state_dict()}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.plateau.load_state_dict(checkpoint["task"]["plateau"])


def step_seed(seed: int, step: int, rank: int) -> int:
    digest = hashlib.sha256(f"{seed}/{step}/{rank}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
