"""What the data of all tasks share, as Lightning wants it: how long a run is, and which splits it evaluates."""

from typing import Any

import pytorch_lightning as pl

from highway.config.experiment import Experiment


class ExperimentData(pl.LightningDataModule):
    """A task's data gives `steps_per_epoch`, `train_dataloader()` and `evaluated(split)`."""

    steps_per_epoch: int
    final_differs = False  # whether a trained model is evaluated in another way than in training
    tested = "test"  # the split that trainer.test evaluates next
    final = False  # whether that is in the final way

    def __init__(self, experiment: Experiment) -> None:
        super().__init__()
        self.experiment = experiment
        self.watched = experiment.dataset_card.watched  # the split that is evaluated in training

    @property
    def curves(self) -> tuple[str, ...]:
        """The splits that are evaluated in training, the one that is watched first."""
        return (
            (self.watched, "test") if self.experiment.trainer.test_curve and self.watched != "test" else (self.watched,)
        )

    @property
    def total_steps(self) -> int:
        steps = self.experiment.trainer.max_epochs * self.steps_per_epoch
        return self.experiment.debug.steps or min(steps, self.experiment.trainer.max_steps or steps)

    @property
    def validate_every(self) -> int:
        if self.experiment.debug.overfit:
            return max(self.total_steps // 10, 1)
        return min(self.experiment.trainer.validate_every or self.steps_per_epoch, self.total_steps)

    def description(self) -> dict[str, Any]:
        """What result.json says of the data; `vocabulary_sha256` where there is a vocabulary."""
        dataset = self.experiment.dataset
        watched = {} if self.watched == "valid" else {"validation": f"none: best is by {self.watched}"}
        return {
            **watched,
            "name": dataset.name,
            "form": dataset.form,
            "source": self.experiment.dataset_card.extent if dataset.source == "files" else dataset.source,
        }

    @property
    def remarks(self) -> list[str]:
        """What to tell of the data when a run starts."""
        return []

    def place(self) -> tuple[int, int]:
        """Which device this is, of how many."""
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)

    def evaluated(self, split: str) -> Any:
        """The batches of a whole split."""
        raise NotImplementedError

    def val_dataloader(self) -> Any:
        return [self.evaluated(split) for split in self.curves]

    def test_dataloader(self) -> Any:
        return self.evaluated(self.tested)
