"""A Lightning data module for images: a row of pixels and a class for each image."""

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
    images: int  # number of images in the whole batch, on all devices


class ImageData(ExampleData):
    def __init__(self, experiment: Experiment, images: Images) -> None:
        self.shuffled = experiment.dataset.shuffled
        super().__init__(experiment, images)

    def batch(self, split: str, rows: Rows, share: int, shares: int) -> ImageBatch:
        rows_here, images = rows[share::shares], self.streams.splits[split]
        pixels = (images.pixels[rows_here].float() / 255 - MEAN) / DEVIATION
        return ImageBatch(pixels[..., None], images.labels[rows_here], len(rows))


def like_real(experiment: Experiment, device: str) -> ImageBatch:
    """Return a training batch of random pixels, for timing: a step takes equally long on real pixels."""
    dataset = experiment.dataset
    pixels = torch.randn(dataset.batch, dataset.longest_text, 1, device=device)
    return ImageBatch(pixels, torch.randint(CLASSES, (dataset.batch,), device=device), dataset.batch)
