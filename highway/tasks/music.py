"""Polyphonic music: predict for each of 88 keys whether it is down at the next step.

    nats of a step = - sum over keys of  y log p + (1 - y) log(1 - p)

As in R-Transformer's code, the gradient is that of the sum over the steps of a tune, in double precision. The reported
number is the mean over all predicted steps of a split. Padding is not counted.
"""

import torch.nn.functional as F
from torch import Tensor

from highway.data.tunes import TuneBatch
from highway.tasks.task import Learnt, Task


class Music(Task):
    """Music modelling with a model that maps (keys, state) to (features, state)."""

    lengths_vary = True

    def shown(self, loss: float) -> dict[str, float]:
        return {"loss": loss, "nll": loss}

    def tokens(self, batch: TuneBatch) -> int:
        return batch.steps

    def learn(self, batch: TuneBatch) -> Learnt:
        nats = self._nats(batch, "sum")
        return Learnt(nats * self.devices, nats, batch.counts.double().sum())

    def _nats(self, batch: TuneBatch, reduction: str) -> Tensor:
        """Return the nats of all keys, or of each key at each step (B, T, 88); padding has 0."""
        features, _ = self.model(batch.inputs.to(self.dtype))
        logits, targets = self.model.logits(features).double(), batch.targets.double()
        return F.binary_cross_entropy_with_logits(
            logits, targets, weight=batch.counts.double()[..., None], reduction=reduction
        )

    def score(self, batch: TuneBatch) -> None:
        nats = self._nats(batch, "none" if self.unit_losses else "sum")
        if self.unit_losses:
            self.unit_losses.add(nats.sum((1, 2)), batch.counts.sum(1))
        self.add(nats=nats.sum(), units=batch.counts.double().sum())
