"""Batches of sentence pairs of similar length.

An epoch sorts the pairs by length, with ties in an order drawn from (seed, epoch). It cuts them into batches of a fixed
number of sentences or pieces, and shuffles the batches. There is little padding, and the order depends only on the
position.
"""

from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from highway.cards.datasets import END, PADDING
from highway.config.experiment import Experiment
from highway.data.batches import ExampleData, Rows, in_groups
from highway.data.translation import Corpus
from highway.errors import Refused

SENTENCE = 24  # pieces of a sentence, about the mean of TED's


class PairBatch(NamedTuple):
    """B sentence pairs; S and T are the longest source and target."""

    source: Tensor  # (B, S), padded
    inputs: Tensor  # (B, T), the target from its start on
    targets: Tensor  # (B, T), the next pieces of the target; padding is not scored
    scored: int  # target pieces in the whole batch, on all devices

    def padded(self, multiple: int, longest: int) -> "PairBatch":
        """Pad S and T to a multiple, but to no more than `longest`."""

        def pad(text: Tensor) -> Tensor:
            length = text.shape[1]
            more = min(-length % multiple, max(longest - length, 0))
            return F.pad(text, (0, more), value=PADDING)

        return self._replace(source=pad(self.source), inputs=pad(self.inputs), targets=pad(self.targets))


class PairTable:
    """A split as arrays: the pieces of all sources end to end, those of all targets, and where each text begins."""

    def __init__(self, rows: Any) -> None:
        self.sides = []
        for name in ("source", "target"):
            column = rows.data.column(name).combine_chunks()
            self.sides.append((column.values.to_numpy(), column.offsets.to_numpy()))

    def __len__(self) -> int:
        return len(self.sides[0][1]) - 1

    def lengths(self, side: int) -> np.ndarray:
        return np.diff(self.sides[side][1])

    def batch(self, rows: Rows, share: int = 0, shares: int = 1) -> PairBatch:
        scored = int((self.lengths(1)[rows] - 1).sum())
        rows_here = rows[share::shares]
        source, target = (self._padded(side, rows_here if len(rows_here) else rows[:1]) for side in (0, 1))
        targets = target[:, 1:]
        if not len(rows_here):  # a batch may have fewer pairs than there are devices
            targets = torch.full_like(targets, PADDING)
        return PairBatch(source, target[:, :-1], targets, scored)

    def _padded(self, side: int, rows: Rows) -> Tensor:
        values, offsets = self.sides[side]
        texts = [values[offsets[row] : offsets[row + 1]] for row in rows]
        padded = np.full((len(texts), max(map(len, texts))), PADDING, dtype=np.int64)
        for line, text in zip(padded, texts, strict=True):
            line[: len(text)] = text
        return torch.from_numpy(padded)


def batch_ends(lengths: np.ndarray, sentences: int, pieces: int | None) -> list[int]:
    """Return the ends of the batches of rows sorted by target length, which are the same in every epoch."""
    if pieces is None:
        return [*range(0, len(lengths), sentences), len(lengths)]
    ends = [0]
    for row, length in enumerate(lengths):
        if (row + 1 - ends[-1]) * (length - 1) > pieces:
            ends.append(row)
    return [*ends, len(lengths)]


class TranslationData(ExampleData):
    """Sentence pairs, sorted by length so that there is little padding."""

    def __init__(self, experiment: Experiment, corpus: Corpus) -> None:
        self.tables = {split: PairTable(rows) for split, rows in corpus.splits.items()}
        super().__init__(experiment, corpus)

    def check(self) -> None:
        """Refuse an empty training split. A batch may have fewer pairs than there are devices."""
        if not len(self.tables["train"]):
            raise Refused("no training pair is short enough: raise dataset.longest or dataset.longest_words.")

    @staticmethod
    def like_real(experiment: Experiment, device: str) -> PairBatch:
        """Return random pieces."""
        dataset = experiment.dataset
        length = min(SENTENCE, dataset.longest)
        source, target = (
            torch.randint(END + 1, size, (dataset.batch, length + side), device=device)
            for side, size in enumerate(dataset.vocabulary_sizes)
        )
        return PairBatch(source, target[:, :-1], target[:, 1:], dataset.batch * length)

    def batch(self, split: str, rows: Rows, share: int, shares: int) -> PairBatch:
        batch = self.tables[split].batch(rows, share, shares)
        padding_counts = self.experiment.gate.score.as_printed  # the gate then reads the scores of padding
        if split == "train" and self.device.type == "cuda" and not padding_counts:
            return batch.padded(8, self.experiment.dataset.longest)  # sizes that a GPU multiplies fast
        return batch

    def training_groups(self, epoch: int) -> list[Rows]:
        """Sort the pairs by length, with ties in a random order; cut them into batches, and shuffle these."""
        dataset, table = self.experiment.dataset, self.tables["train"]
        random = np.random.default_rng([self.experiment.seed, epoch])
        ties = random.permutation(len(table))
        rows = np.lexsort((ties, table.lengths(0), table.lengths(1)))
        ends = batch_ends(table.lengths(1)[rows], dataset.batch, dataset.batch_pieces)
        groups = [rows[start:end] for start, end in pairwise(ends)]
        return [groups[number] for number in random.permutation(len(groups))]

    def evaluation_groups(self, split: str) -> list[Rows]:
        table = self.tables[split]
        return in_groups(np.lexsort((table.lengths(0), table.lengths(1))), self.experiment.dataset.batch)

    def description(self) -> dict[str, Any]:
        return {
            **super().description(),
            **self.streams.about,
            "padding": round(self.padding, 4),
            "vocabulary_sha256": self.streams.vocabulary_sha256,
        }

    @property
    def remarks(self) -> list[str]:
        return [*self.streams.remarks, f"padding: {self.padding:.1%} of all positions"]

    @cached_property
    def padding(self) -> float:
        """The share of padding among the source and target positions of the first epoch, without a GPU's own."""
        table = self.tables["train"]
        sides = (table.lengths(0), table.lengths(1) - 1)
        positions = sum(len(rows) * int(lengths[rows].max()) for lengths in sides for rows in self.groups(0))
        return 1 - float(table.lengths(0).sum() + table.lengths(1).sum() - len(table)) / positions
