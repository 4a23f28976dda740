"""Sequence classification from the features at the last position."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from highway.data.images import ImageBatch
from highway.tasks.task import Learnt, Task


class Classification(Task):
    """Classification of images read pixel by pixel; the model maps (values, state) to (features, state)."""

    counted = ("nats", "right", "units")

    def tokens(self, batch: ImageBatch) -> int:
        return batch.images * batch.pixels.shape[1]

    def learn(self, batch: ImageBatch) -> Learnt:
        smoothing = self.experiment.optimizer.label_smoothing
        total = F.cross_entropy(self._logits(batch), batch.labels, reduction="sum", label_smoothing=smoothing)
        return Learnt(total * self.devices / batch.images, total, len(batch.labels))

    def _logits(self, batch: ImageBatch) -> Tensor:
        features, _ = self.model(batch.pixels.to(self.dtype))
        return self.model.logits(features[:, -1]).to(self.dtype)

    def score(self, batch: ImageBatch) -> None:
        logits = self._logits(batch)
        losses = F.cross_entropy(logits, batch.labels, reduction="none" if self.unit_losses else "sum")
        if self.unit_losses:
            self.unit_losses.add(losses)
        self.add(nats=losses.sum(), right=(logits.argmax(-1) == batch.labels).sum(), units=len(batch.labels))
        self.measure(logits, batch.labels)

    def results(self, counts: dict[str, float]) -> dict[str, Any]:
        return {**super().results(counts), "accuracy": counts["right"] / counts["units"]}
