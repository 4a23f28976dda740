"""Images as Lightning wants them: a row of pixels each, and a class."""

from typing import NamedTuple

import torch
from torch import Tensor

from highway.config.datasets import CLASSES
from highway.config.experiment import Experiment
from highway.data.examples import ExampleData, Rows
from highway.data.mnist import DEVIATION, MEAN, Images


class ImageBatch(NamedTuple):
    pixels: Tensor  # (B, T, 1)
    labels: Tensor  # (B,)
    images: int  # in the whole batch, on all devices


class ImageData(ExampleData):
    def __init__(self, experiment: Experiment, images: Images) -> None:
        self.shuffled = experiment.dataset.shuffled
        super().__init__(experiment, images)

    def batch(self, split: str, rows: Rows, share: int, shares: int) -> ImageBatch:
        own, images = rows[share::shares], self.streams.splits[split]
        pixels = (images.pixels[own].float() / 255 - MEAN) / DEVIATION
        return ImageBatch(pixels[..., None], images.labels[own], len(rows))


def like_real(experiment: Experiment, device: str) -> ImageBatch:
    """A training batch of random pixels: a step takes no other time for real ones."""
    dataset = experiment.dataset
    pixels = torch.randn(dataset.batch, dataset.longest_text, 1, device=device)
    return ImageBatch(pixels, torch.randint(CLASSES, (dataset.batch,), device=device), dataset.batch)
