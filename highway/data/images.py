"""MNIST as rows of pixels: 60,000 training and 10,000 test images; there is no validation split.

An idx file has a header of big-endian numbers, then one byte for each pixel or label. The header of images is 2051 and
three sizes; that of labels is 2049 and their number.
"""

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from highway.cards.datasets import CLASSES, SIDE, ImageDataset
from highway.config.experiment import Experiment
from highway.data import sample_digits
from highway.data.batches import ExampleData, Rows
from highway.data.fetch import sha256_of
from highway.data.sources import MNIST
from highway.errors import Refused

MEAN, DEVIATION = 0.1307, 0.3081  # mean and standard deviation of the training pixels, scaled to [0, 1]
SPLITS = {"train": "train", "test": "t10k"}


@dataclass(frozen=True)
class Split:
    """The images of a split."""

    pixels: Tensor  # (N, T) of bytes, row by row from the upper left
    labels: Tensor  # (N,)

    def __len__(self) -> int:
        return len(self.labels)

    def on(self, device: torch.device) -> "Split":
        """Return these images on a device; themselves if they lie there."""
        return self if self.labels.device == device else Split(self.pixels.to(device), self.labels.to(device))


@dataclass(frozen=True)
class Images:
    """The splits of the data set, with the sha256 of each."""

    splits: dict[str, Split]
    sha256: dict[str, str]
    units = "images"


def files(dataset: ImageDataset, data_dir: Path) -> dict[str, Path]:
    return {name: data_dir / MNIST.folder / name for name in MNIST.checksums}


def verify(dataset: ImageDataset, data_dir: Path) -> None:
    MNIST.verify_all(files(dataset, data_dir).values())


def streams(dataset: ImageDataset, data_dir: Path, cache_dir: Path) -> Images:
    if dataset.source == "sample":
        arrays = sample_digits.digits()
    else:
        paths = files(dataset, data_dir)
        MNIST.ensure(list(paths.values()))
        arrays = {
            split: (idx(paths[f"{name}-images-idx3-ubyte.gz"]), idx(paths[f"{name}-labels-idx1-ubyte.gz"]))
            for split, name in SPLITS.items()
        }
    sha256 = {split: sha256_of(parts) for split, parts in arrays.items()}
    return Images({split: _split(*parts, dataset.side) for split, parts in arrays.items()}, sha256)


def idx(path: Path) -> np.ndarray:
    """Read the array of bytes from a compressed idx file."""
    content = gzip.decompress(path.read_bytes())
    kind, dimensions = content[2], content[3]
    end = 4 + 4 * dimensions
    shape = np.frombuffer(content[4:end], ">u4").astype(int)
    if content[:2] != b"\0\0" or kind != 8 or len(content) - end != shape.prod():
        raise Refused(f"{path} is not an idx file of bytes. Delete it to fetch it again.")
    return np.frombuffer(content, np.uint8, offset=end).reshape(shape)


def _split(images: np.ndarray, labels: np.ndarray, side: int) -> Split:
    if side != SIDE:
        part = SIDE // side
        images = images.reshape(-1, side, part, side, part).mean((2, 4)).round().astype(np.uint8)
    return Split(torch.tensor(images.reshape(len(images), -1)), torch.tensor(labels.astype(np.int64)))


class ImageBatch(NamedTuple):
    """B images of T pixels, and the class of each."""

    pixels: Tensor  # (B, T, 1)
    labels: Tensor  # (B,)
    images: int  # number of images in the whole batch, on all devices


class ImageData(ExampleData):
    """A row of pixels and a class for each image."""

    def __init__(self, experiment: Experiment, images: Images) -> None:
        self.shuffled = experiment.dataset.shuffled
        super().__init__(experiment, images)

    def batch(self, split: str, rows: Rows, share: int, shares: int) -> ImageBatch:
        images = self.streams.splits[split] = self.streams.splits[split].on(self.device)
        rows_here = torch.from_numpy(rows[share::shares]).to(self.device, non_blocking=True)
        pixels = (images.pixels[rows_here].float() / 255 - MEAN) / DEVIATION
        return ImageBatch(pixels[..., None], images.labels[rows_here], len(rows))

    @staticmethod
    def like_real(experiment: Experiment, device: str) -> ImageBatch:
        """Return random pixels and classes."""
        dataset = experiment.dataset
        pixels = torch.randn(dataset.batch, dataset.longest_text, 1, device=device)
        return ImageBatch(pixels, torch.randint(CLASSES, (dataset.batch,), device=device), dataset.batch)
