"""A Lightning data module for streams of symbols: training windows from any position, evaluation in groups."""

from collections.abc import Iterator
from typing import Any

import torch

from highway.config.datasets import Cut
from highway.config.experiment import Experiment
from highway.data.counting import counting_loss
from highway.data.lanes import Batch, TrainingBatches, Windows
from highway.data.module import ExperimentData
from highway.data.stream import Streams
from highway.errors import Refused


class LanguageData(ExperimentData):
    """The windows of a stream, for training and evaluation."""

    def __init__(self, experiment: Experiment, streams: Streams) -> None:
        super().__init__(experiment)
        self.streams = streams
        self.final_differs = experiment.dataset.final is not None
        self.steps_per_epoch = len(self._windows("train"))
        dataset, overfit = experiment.dataset, experiment.debug.overfit
        for split, stream in streams.splits.items():
            cuts = [dataset.train] if split == "train" or overfit else [dataset.evaluation, dataset.final]
            if any(cut and len(Windows(stream, cut)) == 0 for cut in cuts):
                raise Refused(
                    f"the {split} stream of {len(stream)} symbols is too short for one window of each lane: "
                    "lower the lanes or window of dataset.train, dataset.evaluation or dataset.final."
                )

    @property
    def evaluation_cut(self) -> Cut:
        """The cut of the current evaluation."""
        dataset = self.experiment.dataset
        return dataset.final if self.final and dataset.final else dataset.evaluation

    def description(self) -> dict[str, Any]:
        return {
            **super().description(),
            "symbols": {split: len(stream) for split, stream in self.streams.splits.items()},
            "sha256": self.streams.sha256,
            "vocabulary_sha256": self.streams.vocabulary_sha256,
        }

    def counting_loss(self) -> float:
        return counting_loss(self.streams.splits)

    def train_dataloader(self) -> TrainingBatches:
        rank, world = self.device_share()
        return TrainingBatches(self._windows("train", rank, world), self.total_steps)

    def evaluated(self, split: str) -> "EvaluationBatches":
        return self._evaluated(split, self.streams.splits[split])

    def _evaluated(self, split: str, stream: torch.Tensor) -> "EvaluationBatches":
        rank, world = self.device_share()
        if self.experiment.dataset.carry_state:  # in order, one window at a time; each device has its lanes
            windows = self._windows(split, rank, world, stream)
            return EvaluationBatches(windows if len(windows.lanes) else windows.first(0), 1, 0, 1)
        windows = self._windows(split, stream=stream)
        return EvaluationBatches(windows, self.experiment.trainer.evaluation_batch, rank, world)

    def positions(self, split: str) -> tuple[Iterator[torch.Tensor], int] | None:
        """Cut the positions of the stream as `evaluated` cuts its symbols."""
        length = len(self.streams.splits[split])
        batches = self._evaluated(split, torch.arange(length))
        return None if self.experiment.debug.overfit else ((batch.targets for batch in batches), length)

    def _windows(self, split: str, share: int = 0, shares: int = 1, stream: torch.Tensor | None = None) -> Windows:
        dataset, debug = self.experiment.dataset, self.experiment.debug
        if debug.overfit:
            windows = Windows(self.streams.splits["train"], dataset.train, share, shares)
            return windows.first(1, again=len(windows) if split == "train" else 1)
        cut = dataset.train if split == "train" else self.evaluation_cut
        windows = Windows(self.streams.splits[split] if stream is None else stream, cut, share, shares)
        return windows.first(debug.windows) if debug.windows and split != "train" else windows


class EvaluationBatches:
    """The batches of an evaluation, `count` windows at a time."""

    def __init__(self, windows: Windows, count: int, share: int, shares: int) -> None:
        self.windows, self.count, self.share, self.shares = windows, count, share, shares

    def __iter__(self) -> Iterator[Batch]:
        return self.windows.together(self.count, self.share, self.shares)


def like_real(experiment: Experiment, device: str) -> Batch:
    """Return a training batch of random symbols, for timing: a step takes equally long on real symbols."""
    dataset, cut = experiment.dataset, experiment.dataset.train
    tokens = torch.randint(dataset.vocabulary_size, (cut.lanes, cut.window + 1), device=device)
    context = cut.window - cut.scored
    return Batch(tokens[:, :-1], tokens[:, 1 + context :], context, cut.reach)
