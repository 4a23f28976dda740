"""The base classes of all data modules: batches as a pure function of their position, and evaluated splits.

A data module is chosen by the card of a task. Texts are read through windows; images, tunes and sentence pairs are
whole examples, whose order in an epoch is drawn from (seed, epoch). A batch thus depends only on its position, and a
resumed run needs no more than that number.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import pytorch_lightning as pl
import torch

from highway.config.experiment import Experiment
from highway.data.counting import counting_loss
from highway.errors import Refused

Rows = np.ndarray  # the numbers of examples in their split


class Batches(Protocol):
    """Batches by position."""

    def at(self, position: int) -> Any:
        """Return the batch of update `position`, counted from 0 over all epochs."""


class TrainingBatches:
    """The batches of all epochs, from any position on. Lightning iterates over this object.

    The position is the number of batches handed out since step 0; the checkpoint holds it.
    """

    def __init__(self, batches: Batches, steps: int) -> None:
        self.batches = batches
        self.steps = steps
        self.position = 0

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[Any]:
        while self.position < self.steps:
            self.position += 1
            yield self.batches.at(self.position - 1)

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["position"]


def lanes_of(lanes: int, share: int, shares: int) -> slice:
    """Return the lanes of device `share` of `shares`; the first devices have one lane more if it does not divide."""
    each, remainder = divmod(lanes, shares)
    start = share * each + min(share, remainder)
    return slice(start, start + each + (share < remainder))


class EpochBatches:
    """The training batches of whole examples, epoch after epoch.

    groups: epoch -> the rows of each of its batches, in order; every epoch has the same number of batches
    make_batch: rows -> batch
    """

    def __init__(
        self, groups: Callable[[int], list[Rows]], make_batch: Callable[[Rows], Any], overfit: bool = False
    ) -> None:
        self.groups, self.make_batch, self.overfit = groups, make_batch, overfit
        self.count = len(self.groups(0))

    def __len__(self) -> int:
        return self.count

    def at(self, position: int) -> Any:
        epoch, number = divmod(0 if self.overfit else position, self.count)
        return self.make_batch(self.groups(epoch)[number])


class EvaluationBatches:
    """The batches of an evaluation, made anew whenever Lightning iterates over them."""

    def __init__(self, batches: Callable[[], Iterator[Any]]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        return self.batches()


def in_groups(rows: Rows, size: int) -> list[Rows]:
    """Cut rows into groups of `size`; the last may be smaller."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]


class ExperimentData(pl.LightningDataModule):
    """A Lightning data module.

    Subclasses define `like_real`, `steps_per_epoch`, `train_dataloader()` and `evaluated(split)`.
    """

    steps_per_epoch: int
    final_differs = False  # True if a trained model is evaluated in another way than during training
    tested = "test"  # the split that trainer.test evaluates next
    final = False  # True while it evaluates in the way of a trained model

    def __init__(self, experiment: Experiment) -> None:
        super().__init__()
        self.experiment = experiment
        self.watched = experiment.dataset_card.watched  # the split evaluated in training; `test` if there is no `valid`

    @staticmethod
    def like_real(experiment: Experiment, device: str) -> Any:
        """Return a random training batch, for timing: a step takes equally long as on real data of these shapes."""
        raise NotImplementedError

    @property
    def device(self) -> torch.device:
        """The device of the run, where texts and images lie, so that cutting a batch copies nothing between devices."""
        return self.trainer.strategy.root_device if self.trainer else torch.device("cpu")

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """Move a batch to the device, unless it was made there."""
        made_there = batch[0].device == device
        return batch if made_there else super().transfer_batch_to_device(batch, device, dataloader_idx)

    @property
    def curves(self) -> tuple[str, ...]:
        """The splits that are evaluated during training, the watched split first."""
        also = self.experiment.trainer.test_curve and self.watched != "test"
        return (self.watched, "test") if also else (self.watched,)

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
        """Return the batches of a split: the watched one, or one of `tested_splits` of the task's card."""
        raise NotImplementedError

    def val_dataloader(self) -> Any:
        return [self.evaluated(split) for split in self.curves]

    def test_dataloader(self) -> Any:
        return self.evaluated(self.tested)


class ExampleData(ExperimentData):
    """Data of whole examples. `streams` has their splits and sha256; a subclass makes the batches."""

    shuffled = True  # True: the order of an epoch is drawn from (seed, epoch); False: it is that of the files

    def __init__(self, experiment: Experiment, streams: Any) -> None:
        super().__init__(experiment)
        self.streams = streams
        self.check()
        self.groups = lru_cache(maxsize=1)(self.training_groups)  # of the epoch that is read
        self.steps_per_epoch = len(self.groups(0))

    def check(self) -> None:
        """Refuse training data whose last batch has no example for some device."""
        examples, trainer = len(self.streams.splits["train"]), self.experiment.trainer
        fewest = examples % self.experiment.dataset.batch or self.experiment.dataset.batch
        if fewest < trainer.processes:
            raise Refused(
                f"{trainer.processes_as_asked}: "
                f"the last batch of an epoch of {examples:,} {self.streams.units} has {fewest}, "
                "and each device needs one."
            )

    def batch(self, split: str, rows: Rows, share: int, shares: int) -> Any:
        """Return the part of these examples that device `share` of `shares` computes."""
        raise NotImplementedError

    def training_groups(self, epoch: int) -> list[Rows]:
        """Return the examples of each training batch of an epoch, in order."""
        rows = np.arange(len(self.streams.splits["train"]))
        if self.shuffled:
            rows = np.random.default_rng([self.experiment.seed, epoch]).permutation(len(rows))
        return in_groups(rows, self.experiment.dataset.batch)

    def evaluation_groups(self, split: str) -> list[Rows]:
        """Return the examples of each evaluation batch, for all devices together."""
        return in_groups(np.arange(len(self.streams.splits[split])), self.experiment.trainer.evaluation_batch)

    def description(self) -> dict[str, Any]:
        splits = self.streams.splits
        counts = {self.streams.units: {split: len(examples) for split, examples in splits.items()}}
        return {**super().description(), **counts, "sha256": self.streams.sha256}

    def counting_loss(self) -> float | None:
        return counting_loss(self.streams.splits)

    def train_dataloader(self) -> TrainingBatches:
        def make_batch(rows: Rows) -> Any:
            return self.batch("train", rows, *self.device_share())

        batches = EpochBatches(self.groups, make_batch, self.experiment.debug.overfit)
        return TrainingBatches(batches, self.total_steps)

    def evaluated(self, split: str) -> EvaluationBatches:
        """Return the evaluation batches of this device: whole groups, so that no example is evaluated twice."""
        debug = self.experiment.debug
        read = "train" if debug.overfit else split
        share, shares = self.device_share()
        groups = self.groups(0)[:1] if debug.overfit else self.evaluation_groups(split)[: debug.windows]
        return EvaluationBatches(lambda: (self.batch(read, rows, 0, 1) for rows in groups[share::shares]))
