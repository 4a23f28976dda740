"""Texts read through windows: a stream is cut into parallel lanes, and a batch is the same window of each lane."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from highway.cards.datasets import NO_MEMORY, Context, Cut
from highway.cards.metrics import SEEN
from highway.config.experiment import Experiment
from highway.data.batches import EvaluationBatches, ExperimentData, TrainingBatches, lanes_of
from highway.data.counting import counting_loss
from highway.data.texts import Streams
from highway.errors import Refused


class TextBatch(NamedTuple):
    """A window of every lane; T positions."""

    inputs: Tensor  # (lanes, T)
    targets: Tensor  # (lanes, T - unscored), the scored tail only
    unscored: int  # positions before the scored tail
    context: Context = NO_MEMORY  # what a model with memory sees beyond the window


class Windows:
    """The windows of a stream that is cut into parallel lanes, for device `share` of `shares`, which has whole lanes.

    A stream of n symbols becomes `lanes` lanes of n // lanes symbols each (the remainder is dropped). A window covers
    `window` positions of all lanes at once, and moves on by `stride`. Only its last `scored` positions enter the loss.
    Two ways of reading are special cases:

    overlapping windows   window 400, stride 320, scored 320: each scored position sees itself and 80 to 399 before it
    contiguous segments   window = stride = scored: every symbol scored once, the state carried along
    """

    def __init__(self, stream: Tensor, cut: Cut, share: int = 0, shares: int = 1) -> None:
        length = len(stream) // cut.lanes
        self.unscored, self.context = cut.window - cut.scored, cut.context
        inputs = length - 1  # the last symbol of a lane is only a target
        needed = cut.window - 1 if cut.whole else self.unscored
        self.starts = [start for start in range(0, inputs, cut.stride) if start + needed < inputs]
        self.ends = [min(start + cut.window, inputs) for start in self.starts]
        lanes = stream[: length * cut.lanes].view(cut.lanes, length)
        self.lanes = lanes[lanes_of(cut.lanes, share, shares)]

    def __len__(self) -> int:
        return len(self.starts)

    def keep_first(self, count: int, again: int = 1) -> "Windows":
        """Keep only the first `count` windows, repeated `again` times. Changes this object and returns it."""
        self.starts, self.ends = self.starts[:count] * again, self.ends[:count] * again
        return self

    def __getitem__(self, index: int) -> TextBatch:
        start, end = self.starts[index], self.ends[index]
        inputs = self.lanes[:, start:end].long()
        targets = self.lanes[:, start + self.unscored + 1 : end + 1].long()
        return TextBatch(inputs, targets, self.unscored, self.context)

    def at(self, position: int) -> TextBatch:
        return self[position % len(self)]

    def together(self, count: int, share: int = 0, shares: int = 1) -> Iterator[TextBatch]:
        """Yield independent windows for evaluation, `count` at a time; a shorter last window is alone."""
        group: list[TextBatch] = []
        for number, index in enumerate(range(share, len(self), shares)):
            batch = self[index]
            if group and (number % count == 0 or batch.inputs.shape != group[-1].inputs.shape):
                yield _joined(group)
                group = []
            group.append(batch)
        if group:
            yield _joined(group)


def _joined(group: list[TextBatch]) -> TextBatch:
    return TextBatch(
        torch.cat([batch.inputs for batch in group]),
        torch.cat([batch.targets for batch in group]),
        *group[0][2:],
    )


class LanguageData(ExperimentData):
    """The windows of a stream: training windows from any position, evaluation in groups."""

    def __init__(self, experiment: Experiment, streams: Streams) -> None:
        super().__init__(experiment)
        self.streams = streams
        self.final_differs = experiment.dataset.final is not None
        self.steps_per_epoch = len(self._windows("train"))
        dataset, overfit = experiment.dataset, experiment.debug.overfit
        for split in (*streams.splits, SEEN):
            stream = self._stream(split)
            cuts = [dataset.train] if split == "train" or overfit else [dataset.evaluation, dataset.final]
            if any(cut and len(Windows(stream, cut)) == 0 for cut in cuts):
                raise Refused(
                    f"the {split} stream of {len(stream)} symbols is too short for one window of each lane: "
                    "lower the lanes or window of dataset.train, dataset.evaluation or dataset.final."
                )

    @staticmethod
    def like_real(experiment: Experiment, device: str) -> TextBatch:
        """Return random symbols."""
        dataset, cut = experiment.dataset, experiment.dataset.train
        tokens = torch.randint(dataset.vocabulary_size, (cut.lanes, cut.window + 1), device=device)
        unscored = cut.window - cut.scored
        return TextBatch(tokens[:, :-1], tokens[:, 1 + unscored :], unscored, cut.context)

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
        return TrainingBatches(self._windows("train", *self.device_share()), self.total_steps)

    def _stream(self, split: str) -> Tensor:
        """Return the symbols of a split; those of `seen` are the first of training, as many as validation has."""
        splits = self.streams.splits
        return splits["train"][: len(splits[self.watched])] if split == SEEN else splits[split]

    def evaluated(self, split: str) -> EvaluationBatches:
        share, shares = self.device_share()
        if self.experiment.dataset.carry_state:  # in order, one window at a time; each device has its lanes
            windows = self._windows(split, share, shares)
            if not len(windows.lanes):
                windows.keep_first(0)
            return EvaluationBatches(lambda: windows.together(1))
        windows = self._windows(split)
        return EvaluationBatches(lambda: windows.together(self.experiment.trainer.evaluation_batch, share, shares))

    def _windows(self, split: str, share: int = 0, shares: int = 1) -> Windows:
        dataset, debug = self.experiment.dataset, self.experiment.debug
        if debug.overfit:
            windows = Windows(self.streams.splits["train"].to(self.device), dataset.train, share, shares)
            return windows.keep_first(1, again=len(windows) if split == "train" else 1)
        cut = dataset.train if split == "train" else self.evaluation_cut
        windows = Windows(self._stream(split).to(self.device), cut, share, shares)
        return windows.keep_first(debug.windows) if debug.windows and split != "train" else windows
