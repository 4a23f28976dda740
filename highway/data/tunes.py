"""Nottingham folk tunes: predict the keys of the next step from those of this step.

There are 694 / 173 / 170 tunes with 176,561 / 45,513 / 44,463 steps; in each step, 88 keys are down or up.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from highway.cards.datasets import KEYS, MusicDataset
from highway.config.experiment import Experiment
from highway.data import sample_tunes
from highway.data.batches import ExampleData, Rows, in_groups
from highway.data.fetch import sha256_of
from highway.data.sources import NOTTINGHAM

FILE = "Nottingham.mat"
SPLITS = {"train": "traindata", "valid": "validdata", "test": "testdata"}
STEPS = 254  # steps of a tune, about the mean of Nottingham's


@dataclass(frozen=True)
class Tunes:
    """The splits of the data set, with the sha256 of each."""

    splits: dict[str, list[Tensor]]  # (steps, 88) each, of bytes
    sha256: dict[str, str]
    units = "tunes"


def files(dataset: MusicDataset, data_dir: Path) -> dict[str, Path]:
    return {FILE: data_dir / NOTTINGHAM.folder / FILE}


def verify(dataset: MusicDataset, data_dir: Path) -> None:
    NOTTINGHAM.verify_all(files(dataset, data_dir).values())


def streams(dataset: MusicDataset, data_dir: Path, cache_dir: Path) -> Tunes:
    if dataset.source == "sample":
        arrays = sample_tunes.tunes()
    else:
        (path,) = files(dataset, data_dir).values()
        NOTTINGHAM.ensure([path])
        arrays = _read(path)
    sha256 = {split: sha256_of(tunes) for split, tunes in arrays.items()}
    return Tunes({split: [torch.tensor(tune) for tune in tunes] for split, tunes in arrays.items()}, sha256)


def _read(path: Path) -> dict[str, list[np.ndarray]]:
    from scipy.io import loadmat  # importing it takes longer than reading the file

    content = loadmat(path)
    return {split: [np.ascontiguousarray(tune) for tune in content[name][0]] for split, name in SPLITS.items()}


class TuneBatch(NamedTuple):
    """B tunes of at most T predicted steps."""

    inputs: Tensor  # (B, T, 88), padded at the end
    targets: Tensor  # (B, T, 88), the same one step later
    counts: Tensor  # (B, T), 1 for a step of the tune and 0 for padding
    steps: int  # number of predicted steps in the whole batch, on all devices


class TuneData(ExampleData):
    """The keys of each step of a tune, and those of the step after it."""

    def batch(self, split: str, rows: Rows, share: int, shares: int) -> TuneBatch:
        tunes = [self.streams.splits[split][row] for row in rows]
        lengths = [len(tune) - 1 for tune in tunes]
        padded = pad_sequence(tunes[share::shares], batch_first=True).float()
        counts = torch.arange(padded.shape[1] - 1) < torch.tensor(lengths[share::shares])[:, None]
        return TuneBatch(padded[:, :-1], padded[:, 1:], counts.float(), sum(lengths))

    def evaluation_groups(self, split: str) -> list[Rows]:
        """Group the tunes sorted by length, which needs little padding."""
        rows = np.argsort([len(tune) for tune in self.streams.splits[split]], kind="stable")
        return in_groups(rows, self.experiment.trainer.evaluation_batch)

    @staticmethod
    def like_real(experiment: Experiment, device: str) -> TuneBatch:
        """Return random keys."""
        batch = experiment.dataset.batch
        keys = torch.randint(2, (batch, STEPS + 1, KEYS), device=device).float()
        return TuneBatch(keys[:, :-1], keys[:, 1:], torch.ones(batch, STEPS, device=device), batch * STEPS)
