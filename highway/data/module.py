"""The base class of all data modules: the length of a run, and the splits that it evaluates."""

from collections.abc import Iterator
from typing import Any

import pytorch_lightning as pl

from highway.config.experiment import Experiment


class ExperimentData(pl.LightningDataModule):
    """A Lightning data module. Subclasses define `steps_per_epoch`, `train_dataloader()` and `evaluated(split)`."""

    steps_per_epoch: int
    final_differs = False  # True if a trained model is evaluated in another way than during training
    tested = "test"  # the split that trainer.test evaluates next
    final = False  # True while it evaluates in the way of a trained model

    def __init__(self, experiment: Experiment) -> None:
        super().__init__()
        self.experiment = experiment
        self.watched = experiment.dataset_card.watched  # the split that is evaluated in training

    @property
    def curves(self) -> tuple[str, ...]:
        """The splits that are evaluated during training, the watched split first."""
        return (
            (self.watched, "test") if self.experiment.trainer.test_curve and self.watched != "test" else (self.watched,)
        )

    @property
    def total_steps(self) -> int:
        """The number of updates in a run."""
        steps = self.experiment.trainer.max_epochs * self.steps_per_epoch
        return self.experiment.debug.steps or min(steps, self.experiment.trainer.max_steps or steps)

    @property
    def validate_every(self) -> int:
        """The number of updates between two validations."""
        if self.experiment.debug.overfit:
            return max(self.total_steps // 10, 1)
        return min(self.experiment.trainer.validate_every or self.steps_per_epoch, self.total_steps)

    def description(self) -> dict[str, Any]:
        """Describe the data for result.json, with `vocabulary_sha256` if there is a vocabulary."""
        dataset = self.experiment.dataset
        watched = {} if self.watched == "valid" else {"validation": f"none: best is by {self.watched}"}
        return {
            **watched,
            "name": dataset.name,
            "form": dataset.form,
            "source": self.experiment.dataset_card.extent if dataset.source == "files" else dataset.source,
        }

    def counting_loss(self) -> float | None:
        """Return the test loss of the frequencies in the training data; None if this data set has no such loss."""
        return None

    @property
    def remarks(self) -> list[str]:
        """Remarks about the data, printed when a run starts."""
        return []

    def device_share(self) -> tuple[int, int]:
        """Return the number of this device, counted from 0, and the number of devices."""
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)

    def evaluated(self, split: str) -> Any:
        """Return the batches of a split."""
        raise NotImplementedError

    def positions(self, split: str) -> tuple[Iterator[Any], int] | None:
        """Return the positions in the split that each batch of `evaluated` scores, and the length of the split.

        None if the losses of this data set's units are not kept.
        """
        return None

    def val_dataloader(self) -> Any:
        return [self.evaluated(split) for split in self.curves]

    def test_dataloader(self) -> Any:
        return self.evaluated(self.tested)
