"""A Lightning data module for tunes: predict the keys of the next step from those of this step."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from highway.config.datasets import KEYS
from highway.config.experiment import Experiment
from highway.data.examples import ExampleData, Rows


class TuneBatch(NamedTuple):
    """B tunes of at most T predicted steps."""

    inputs: Tensor  # (B, T, 88), padded at the end
    targets: Tensor  # (B, T, 88), the same one step later
    counts: Tensor  # (B, T), 1 for a step of the tune and 0 for padding
    steps: int  # number of predicted steps in the whole batch, on all devices


class TuneData(ExampleData):
    shuffled = True

    def batch(self, split: str, rows: Rows, share: int, shares: int) -> TuneBatch:
        tunes = [self.streams.splits[split][row] for row in rows]
        lengths = [len(tune) - 1 for tune in tunes]
        padded = pad_sequence(tunes[share::shares], batch_first=True).float()
        counts = torch.arange(padded.shape[1] - 1) < torch.tensor(lengths[share::shares])[:, None]
        return TuneBatch(padded[:, :-1], padded[:, 1:], counts.float(), sum(lengths))

    def together(self, split: str) -> Rows:
        """Return the tunes sorted by length, which needs little padding."""
        return np.argsort([len(tune) for tune in self.streams.splits[split]], kind="stable")


STEPS = 254  # steps of a tune, about the mean of Nottingham's


def like_real(experiment: Experiment, device: str) -> TuneBatch:
    """Return a training batch of random keys, for timing: a step takes equally long on real keys."""
    batch = experiment.dataset.batch
    keys = torch.randint(2, (batch, STEPS + 1, KEYS), device=device).float()
    return TuneBatch(keys[:, :-1], keys[:, 1:], torch.ones(batch, STEPS, device=device), batch * STEPS)
