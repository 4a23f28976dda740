"""Data as Lightning wants it: training batches from any position, evaluation in groups; here for language models."""

from collections.abc import Iterator
from typing import Any

import pytorch_lightning as pl

from highway.config import catalogue
from highway.config.schema import Experiment
from highway.data.lanes import Batch, TrainingBatches, Windows
from highway.data.stream import Streams
from highway.errors import Refused


class ExperimentData(pl.LightningDataModule):
    """What all tasks' data share: how long a run is."""

    steps_per_epoch: int

    def __init__(self, experiment: Experiment) -> None:
        super().__init__()
        self.experiment = experiment

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
        """What result.json says of the data."""
        dataset = self.experiment.dataset
        return {
            "name": dataset.name,
            "form": dataset.form,
            "source": catalogue.DATASETS[dataset.name].extent if dataset.source == "files" else dataset.source,
        }

    @property
    def remarks(self) -> list[str]:
        """What to tell of the data when a run starts."""
        return []

    def place(self) -> tuple[int, int]:
        """Which device this is, of how many."""
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)


class LanguageData(ExperimentData):
    def __init__(self, experiment: Experiment, streams: Streams) -> None:
        super().__init__(experiment)
        self.streams = streams
        self.steps_per_epoch = len(self._windows("train"))
        for split, stream in streams.splits.items():
            if len(self._windows(split)) == 0:
                raise Refused(
                    f"the {split} stream of {len(stream)} symbols is too short for one window of each lane: "
                    "lower dataset.train's or dataset.evaluation's lanes or window."
                )

    def description(self) -> dict[str, Any]:
        return {
            **super().description(),
            "symbols": {split: len(stream) for split, stream in self.streams.splits.items()},
            "sha256": self.streams.sha256,
            "vocabulary_sha256": self.streams.vocabulary_sha256,
        }

    def train_dataloader(self) -> TrainingBatches:
        rank, world = self.place()
        return TrainingBatches(self._windows("train", rank, world), self.total_steps)

    def val_dataloader(self) -> "EvaluationBatches":
        return self._evaluation("valid")

    def test_dataloader(self) -> "EvaluationBatches":
        return self._evaluation("test")

    def _evaluation(self, split: str) -> "EvaluationBatches":
        rank, world = self.place()
        if self.experiment.dataset.carry_state:  # in order, one window at a time, each device its lanes
            return EvaluationBatches(self._windows(split, rank, world), 1, 0, 1)
        return EvaluationBatches(self._windows(split), self.experiment.trainer.evaluation_batch, rank, world)

    def _windows(self, split: str, share: int = 0, shares: int = 1) -> Windows:
        dataset, debug = self.experiment.dataset, self.experiment.debug
        if debug.overfit:
            windows = Windows(self.streams.splits["train"], dataset.train, share, shares)
            return windows.first(1, again=len(windows) if split == "train" else 1)
        cut = dataset.train if split == "train" else dataset.evaluation
        windows = Windows(self.streams.splits[split], cut, share, shares)
        return windows.first(debug.windows) if debug.windows and split != "train" else windows


class EvaluationBatches:
    def __init__(self, windows: Windows, count: int, share: int, shares: int) -> None:
        self.windows, self.count, self.share, self.shares = windows, count, share, shares

    def __iter__(self) -> Iterator[Batch]:
        return self.windows.together(self.count, self.share, self.shares)
