"""Tasks on whole examples: classify images, and predict the next step of tunes."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from highway.data.images import ImageBatch
from highway.data.tunes import TuneBatch
from highway.tasks.task import Learnt, Task


class Classification(Task):
    """Classification of images read pixel by pixel, from the features at the last position.

    The model maps (values, state) to (features, state).
    """

    counted = ("nats", "right", "scored")

    def tokens(self, batch: ImageBatch) -> int:
        return batch.images * batch.pixels.shape[1]

    def learn(self, batch: ImageBatch) -> Learnt:
        logits, smoothing = self._logits(batch), self.experiment.optimizer.label_smoothing
        total = F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=smoothing)
        nats = F.cross_entropy(logits.detach(), batch.labels, reduction="sum") if smoothing else total
        return Learnt(total * self.devices / batch.images, nats, len(batch.labels))

    def _logits(self, batch: ImageBatch) -> Tensor:
        features, _ = self.model(batch.pixels.to(self.dtype))
        return self.model.logits(features[:, -1]).to(self.dtype)

    def score(self, batch: ImageBatch) -> None:
        logits = self._logits(batch)
        nats = F.cross_entropy(logits, batch.labels, reduction="sum")
        self.add(nats=nats, right=(logits.argmax(-1) == batch.labels).sum(), scored=len(batch.labels))
        self.measure(logits, batch.labels)

    def results(self, counts: dict[str, float]) -> dict[str, Any]:
        return {**super().results(counts), "accuracy": counts["right"] / counts["scored"]}


class Music(Task):
    """Polyphonic music: predict for each of 88 keys whether it is down at the next step.

    nats of a step = - sum over keys of  y log p + (1 - y) log(1 - p)

    As in R-Transformer's code, the gradient is that of the sum over the steps of a tune, in double precision. The
    reported number is the mean over all predicted steps of a split. Padding is not counted. The model maps
    (keys, state) to (features, state).
    """

    lengths_vary = True

    def loss_metrics(self, loss: float) -> dict[str, float]:
        return {"loss": loss, "nll": loss}

    def tokens(self, batch: TuneBatch) -> int:
        return batch.steps

    def learn(self, batch: TuneBatch) -> Learnt:
        nats = self._nats(batch)
        return Learnt(nats * self.devices, nats, batch.counts.double().sum())

    def _nats(self, batch: TuneBatch) -> Tensor:
        """Return the nats of all keys at all steps; padding has 0."""
        features, _ = self.model(batch.inputs.to(self.dtype))
        logits, targets = self.model.logits(features).double(), batch.targets.double()
        return F.binary_cross_entropy_with_logits(
            logits, targets, weight=batch.counts.double()[..., None], reduction="sum"
        )

    def score(self, batch: TuneBatch) -> None:
        self.add(nats=self._nats(batch), scored=batch.counts.double().sum())
