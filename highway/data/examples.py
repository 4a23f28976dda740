"""Whole examples (images, tunes) in batches, from any position of a run: the order of an epoch is that of the files, or
drawn from (seed, epoch), so that it depends on nothing but the position."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from highway.config.experiment import Experiment
from highway.data.lanes import TrainingBatches
from highway.data.module import ExperimentData
from highway.errors import Refused

Rows = np.ndarray


class EpochBatches:
    def __init__(self, count: int, experiment: Experiment, shuffled: bool, taken: Callable[[Rows], Any]) -> None:
        self.count, self.size, self.taken = count, experiment.dataset.batch, taken
        self.seed, self.shuffled, self.overfit = experiment.seed, shuffled, experiment.debug.overfit
        self.order = lru_cache(maxsize=1)(self._order)

    def __len__(self) -> int:
        return -(-self.count // self.size)  # the last batch of an epoch may be smaller

    def at(self, position: int) -> Any:
        epoch, place = divmod(0 if self.overfit else position, len(self))
        return self.taken(self.order(epoch)[place * self.size : (place + 1) * self.size])

    def _order(self, epoch: int) -> Rows:
        if not self.shuffled:
            return np.arange(self.count)
        return np.random.default_rng([self.seed, epoch]).permutation(self.count)


class EvaluationBatches:
    def __init__(self, groups: list[Rows], taken: Callable[[Rows], Any]) -> None:
        self.groups, self.taken = groups, taken

    def __iter__(self) -> Iterator[Any]:
        return map(self.taken, self.groups)


class ExampleData(ExperimentData):
    """`streams` has splits of examples and their sha256; a subclass makes batches of them."""

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
                f"the last batch of an epoch of {examples:,} {streams.units} has {fewest}."
            )

    def batch(self, split: str, rows: Rows, share: int, shares: int) -> Any:
        """What one of several devices has of these examples."""
        raise NotImplementedError

    def together(self, split: str) -> Rows:
        """The examples of a split in the order in which they are evaluated, those beside one another at once."""
        return np.arange(len(self.streams.splits[split]))

    def description(self) -> dict[str, Any]:
        splits = self.streams.splits
        counts = {self.streams.units: {split: len(examples) for split, examples in splits.items()}}
        return {**super().description(), **counts, "sha256": self.streams.sha256}

    def train_dataloader(self) -> TrainingBatches:
        return TrainingBatches(self._epochs(), self.total_steps)

    def _epochs(self) -> EpochBatches:
        def taken(rows: Rows) -> Any:
            return self.batch("train", rows, *self.place())

        return EpochBatches(len(self.streams.splits["train"]), self.experiment, self.shuffled, taken)

    def evaluated(self, split: str) -> EvaluationBatches:
        """Each device has whole groups; no example is evaluated twice."""
        debug, count = self.experiment.debug, self.experiment.trainer.evaluation_batch
        share, shares = self.place()
        if debug.overfit:
            rows = self._epochs().order(0)[: self.experiment.dataset.batch]
            return EvaluationBatches([rows][share::shares], lambda rows: self.batch("train", rows, 0, 1))
        rows = self.together(split)
        groups = [rows[start : start + count] for start in range(0, len(rows), count)][: debug.windows]
        return EvaluationBatches(groups[share::shares], lambda rows: self.batch(split, rows, 0, 1))
