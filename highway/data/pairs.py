"""Batches of sentence pairs of similar length, from any position of a run.

An epoch sorts the pairs by length, with ties in an order drawn from (seed, epoch). It cuts them into batches of a fixed
number of sentences or pieces, and shuffles the batches. There is little padding, and the order depends only on the
position.
"""

from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from highway.config.datasets import END, PADDING
from highway.config.experiment import Experiment
from highway.data.counting import counting_loss
from highway.data.lanes import TrainingBatches
from highway.data.module import ExperimentData
from highway.data.translation import Corpus
from highway.errors import Refused


class PairBatch(NamedTuple):
    """B sentence pairs; S and T are the longest source and target."""

    source: Tensor  # (B, S), padded
    inputs: Tensor  # (B, T), the target from its start on
    targets: Tensor  # (B, T), the next pieces of the target; padding is not scored
    scored: int  # target pieces in the whole batch, on all devices


class PairTable:
    """A split as two arrays: the pieces of all sources end to end, and those of all targets."""

    def __init__(self, rows: Any) -> None:
        self.sides = []
        for name in ("source", "target"):
            column = rows.data.column(name).chunk(0)  # all of it: it was written in one piece
            self.sides.append((column.values.to_numpy(), column.offsets.to_numpy()))

    def __len__(self) -> int:
        return len(self.sides[0][1]) - 1

    def lengths(self, side: int) -> np.ndarray:
        return np.diff(self.sides[side][1])

    def batch(self, rows: np.ndarray, share: int = 0, shares: int = 1) -> PairBatch:
        scored = int((self.lengths(1)[rows] - 1).sum())
        rows_here = rows[share::shares]
        source, target = (self._padded(side, rows_here if len(rows_here) else rows[:1]) for side in (0, 1))
        targets = (
            target[:, 1:] if len(rows_here) else torch.full_like(target[:, 1:], PADDING)
        )  # a batch may have fewer pairs than there are devices
        return PairBatch(source, target[:, :-1], targets, scored)

    def _padded(self, side: int, rows: np.ndarray) -> Tensor:
        values, offsets = self.sides[side]
        texts = [values[offsets[row] : offsets[row + 1]] for row in rows]
        padded = np.full((len(texts), max(map(len, texts))), PADDING, dtype=np.int64)
        for line, text in zip(padded, texts, strict=True):
            line[: len(text)] = text
        return torch.from_numpy(padded)


class EpochBatches:
    """The training pairs, epoch after epoch."""

    def __init__(self, table: PairTable, experiment: Experiment, share: int, shares: int) -> None:
        self.table, self.seed, self.share = table, experiment.seed, (share, shares)
        self.ends = batch_ends(np.sort(table.lengths(1)), experiment.dataset.batch, experiment.dataset.batch_pieces)
        self.overfit = experiment.debug.overfit
        self.order = lru_cache(maxsize=1)(self._order)

    def __len__(self) -> int:
        return len(self.ends) - 1

    def at(self, position: int) -> PairBatch:
        epoch, number = divmod(0 if self.overfit else position, len(self))
        rows, batches = self.order(epoch)
        start, end = self.ends[batches[number]], self.ends[batches[number] + 1]
        return self.table.batch(rows[start:end], *self.share)

    def _order(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Return all rows sorted by length, and the order of the batches."""
        random = np.random.default_rng([self.seed, epoch])
        ties = random.permutation(len(self.table))
        rows = np.lexsort((ties, self.table.lengths(0), self.table.lengths(1)))
        return rows, random.permutation(len(self))


def batch_ends(lengths: np.ndarray, sentences: int, pieces: int | None) -> list[int]:
    """Return the ends of the batches of rows sorted by target length, which are the same in every epoch."""
    if pieces is None:
        return [*range(0, len(lengths), sentences), len(lengths)]
    ends = [0]
    for row, length in enumerate(lengths):
        if (row + 1 - ends[-1]) * (length - 1) > pieces:
            ends.append(row)
    return [*ends, len(lengths)]


class TranslationData(ExperimentData):
    def __init__(self, experiment: Experiment, corpus: Corpus) -> None:
        super().__init__(experiment)
        self.corpus = corpus
        self.tables = {split: PairTable(rows) for split, rows in corpus.splits.items()}
        if not len(self.tables["train"]):
            raise Refused("no training pair is short enough: raise dataset.longest or dataset.longest_words.")
        self.steps_per_epoch = len(self._epochs(0, 1))

    def description(self) -> dict[str, Any]:
        return {
            **super().description(),
            **self.corpus.about,
            "padding": round(self.padding, 4),
            "sha256": self.corpus.sha256,
            "vocabulary_sha256": self.corpus.vocabulary_sha256,
        }

    def counting_loss(self) -> float:
        return counting_loss(self.corpus.splits)

    @property
    def remarks(self) -> list[str]:
        return [*self.corpus.remarks, f"padding: {self.padding:.1%} of all positions"]

    @cached_property
    def padding(self) -> float:
        """The share of padding among the source and target positions of the first epoch."""
        epochs, table = self._epochs(0, 1), self.tables["train"]
        rows, _ = epochs.order(0)
        positions = sum(
            (end - start) * int(lengths[start:end].max())
            for lengths in (table.lengths(0)[rows], table.lengths(1)[rows] - 1)
            for start, end in pairwise(epochs.ends)
        )
        return 1 - float(table.lengths(0).sum() + table.lengths(1).sum() - len(table)) / positions

    def train_dataloader(self) -> TrainingBatches:
        return TrainingBatches(self._epochs(*self.device_share()), self.total_steps)

    def _epochs(self, share: int, shares: int) -> EpochBatches:
        return EpochBatches(self.tables["train"], self.experiment, share, shares)

    def evaluated(self, split: str) -> "EvaluationPairs":
        debug = self.experiment.debug
        if debug.overfit:
            return EvaluationPairs([self._epochs(0, 1).at(0)])
        table, count = self.tables[split], self.experiment.dataset.batch
        rows = np.lexsort((table.lengths(0), table.lengths(1)))
        groups = [rows[start : start + count] for start in range(0, len(rows), count)][: debug.windows]
        share, shares = self.device_share()
        return EvaluationPairs([table.batch(group) for group in groups[share::shares]])


SENTENCE = 24  # pieces of a sentence, about the mean of TED's


def like_real(experiment: Experiment, device: str) -> PairBatch:
    """Return a training batch of random pieces, for timing: a step takes equally long on real pieces."""
    dataset = experiment.dataset
    length = min(SENTENCE, dataset.longest)
    source, target = (
        torch.randint(END + 1, size, (dataset.batch, length + side), device=device)
        for side, size in enumerate(dataset.vocabulary_sizes)
    )
    return PairBatch(source, target[:, :-1], target[:, 1:], dataset.batch * length)


class EvaluationPairs:
    """The batches of an evaluation."""

    def __init__(self, batches: list[PairBatch]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[PairBatch]:
        return iter(self.batches)
