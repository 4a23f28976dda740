"""Nottingham folk tunes: 694 / 173 / 170 with 176,561 / 45,513 / 44,463 steps; in each step, 88 keys are down or up."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from highway.config.datasets import MusicDataset
from highway.data import sample_tunes
from highway.data.download import sha256_of
from highway.data.sources import NOTTINGHAM

FILE = "Nottingham.mat"
SPLITS = {"train": "traindata", "valid": "validdata", "test": "testdata"}


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
        read = sample_tunes.tunes()
    else:
        (path,) = files(dataset, data_dir).values()
        NOTTINGHAM.ensure([path])
        read = _read(path)
    sha256 = {split: sha256_of(tunes) for split, tunes in read.items()}
    return Tunes({split: [torch.tensor(tune) for tune in tunes] for split, tunes in read.items()}, sha256)


def _read(path: Path) -> dict[str, list[np.ndarray]]:
    from scipy.io import loadmat  # importing it takes longer than reading the file

    content = loadmat(path)
    return {split: [np.ascontiguousarray(tune) for tune in content[name][0]] for split, name in SPLITS.items()}
