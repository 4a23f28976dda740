"""Batches of whole examples (images, tunes), from any position of a run.

The order of an epoch is the order of the files, or is drawn from (seed, epoch). It thus depends only on the position.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from highway.config.experiment import Experiment
from highway.data.counting import counting_loss
from highway.data.lanes import TrainingBatches
from highway.data.module import ExperimentData
from highway.errors import Refused

Rows = np.ndarray


class EpochBatches:
    """The training batches, epoch after epoch; `make_batch` makes a batch of the chosen rows."""

    def __init__(self, count: int, experiment: Experiment, shuffled: bool, make_batch: Callable[[Rows], Any]) -> None:
        self.count, self.size, self.make_batch = count, experiment.dataset.batch, make_batch
        self.seed, self.shuffled, self.overfit = experiment.seed, shuffled, experiment.debug.overfit
        self.order = lru_cache(maxsize=1)(self._order)

    def __len__(self) -> int:
        return -(-self.count // self.size)  # the last batch of an epoch may be smaller

    def at(self, position: int) -> Any:
        epoch, number = divmod(0 if self.overfit else position, len(self))
        return self.make_batch(self.order(epoch)[number * self.size : (number + 1) * self.size])

    def _order(self, epoch: int) -> Rows:
        if not self.shuffled:
            return np.arange(self.count)
        return np.random.default_rng([self.seed, epoch]).permutation(self.count)


class EvaluationBatches:
    """The batches of an evaluation, one for each group of rows."""

    def __init__(self, groups: list[Rows], make_batch: Callable[[Rows], Any]) -> None:
        self.groups, self.make_batch = groups, make_batch

    def __iter__(self) -> Iterator[Any]:
        return map(self.make_batch, self.groups)


class ExampleData(ExperimentData):
    """Data of whole examples. `streams` has their splits and sha256; a subclass makes the batches."""

    shuffled: bool

    def __init__(self, experiment: Experiment, streams: Any) -> None:
        super().__init__(experiment)
        self.streams = streams
        self.steps_per_epoch = len(self._epochs())
        examples, trainer = len(streams.splits["train"]), experiment.trainer
        fewest = examples % experiment.dataset.batch or experiment.dataset.batch
        if fewest < trainer.processes:
            raise Refused(
                f"{trainer.processes_as_asked}: "
                f"the last batch of an epoch of {examples:,} {streams.units} has {fewest}, and each device needs one."
            )

    def batch(self, split: str, rows: Rows, share: int, shares: int) -> Any:
        """Return the part of these examples that device `share` of `shares` computes."""
        raise NotImplementedError

    def together(self, split: str) -> Rows:
        """Return the examples of a split in the order of evaluation; neighbours share a batch."""
        return np.arange(len(self.streams.splits[split]))

    def description(self) -> dict[str, Any]:
        splits = self.streams.splits
        counts = {self.streams.units: {split: len(examples) for split, examples in splits.items()}}
        return {**super().description(), **counts, "sha256": self.streams.sha256}

    def counting_loss(self) -> float:
        return counting_loss(self.streams.splits)

    def train_dataloader(self) -> TrainingBatches:
        return TrainingBatches(self._epochs(), self.total_steps)

    def _epochs(self) -> EpochBatches:
        def make_batch(rows: Rows) -> Any:
            return self.batch("train", rows, *self.device_share())

        return EpochBatches(len(self.streams.splits["train"]), self.experiment, self.shuffled, make_batch)

    def evaluated(self, split: str) -> EvaluationBatches:
        """Return the evaluation batches of this device: whole groups, so that no example is evaluated twice."""
        share, shares = self.device_share()
        if self.experiment.debug.overfit:
            rows = self._epochs().order(0)[: self.experiment.dataset.batch]
            return EvaluationBatches([rows][share::shares], lambda rows: self.batch("train", rows, 0, 1))
        return EvaluationBatches(self._groups(split), lambda rows: self.batch(split, rows, 0, 1))

    def positions(self, split: str) -> tuple[Iterator[Rows], int] | None:
        return None if self.experiment.debug.overfit else (iter(self._groups(split)), len(self.streams.splits[split]))

    def _groups(self, split: str) -> list[Rows]:
        """Return the examples of each evaluation batch of this device."""
        debug, count = self.experiment.debug, self.experiment.trainer.evaluation_batch
        share, shares = self.device_share()
        rows = self.together(split)
        groups = [rows[start : start + count] for start in range(0, len(rows), count)][: debug.windows]
        return groups[share::shares]
