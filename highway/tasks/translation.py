"""Translation: cross-entropy and accuracy on the target's pieces without padding; BLEU and chrF of the translations."""

import time
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from highway.config.datasets import PADDING
from highway.data.pairs import PairBatch, TranslationData
from highway.tasks.decoding import Translator
from highway.tasks.scoring import sample_bleu, scores, sparsity
from highway.tasks.task import Learnt, Task


class Translation(Task):
    """Translation with a model that maps (source, inputs) to features."""

    counted = ("nats", "right", "units")
    lengths_vary = True

    def tokens(self, batch: PairBatch) -> int:
        return batch.scored

    def learn(self, batch: PairBatch) -> Learnt:
        total = self._loss(self._logits(batch), batch, self.experiment.optimizer.label_smoothing)
        share = batch.scored / self.devices  # the average over devices is the mean of all pieces
        return Learnt(total / share, total, (batch.targets != PADDING).sum().double())

    def score(self, batch: PairBatch) -> None:
        logits = self._logits(batch)
        scored = batch.targets != PADDING
        right = (logits.argmax(-1) == batch.targets) & scored
        self.add(nats=self._loss(logits, batch), right=right.sum(), units=scored.sum())
        self.measure(logits[scored], batch.targets[scored])

    def results(self, counts: dict[str, float]) -> dict[str, float]:
        return {**super().results(counts), "accuracy": counts["right"] / counts["units"]}

    def _logits(self, batch: PairBatch) -> Tensor:
        return self.model.logits(self.model(batch.source, batch.inputs))

    def _loss(self, logits: Tensor, batch: PairBatch, smoothing: float = 0.0) -> Tensor:
        return F.cross_entropy(
            logits.flatten(0, 1).to(self.dtype),
            batch.targets.flatten(),
            ignore_index=PADDING,
            reduction="sum",
            label_smoothing=smoothing,
        )

    def finished(self, data: Any) -> dict[str, float]:
        """Translate the test set greedily and score it; notes and inference time are those of the last checkpoint."""
        assert isinstance(data, TranslationData)
        corpus, dataset = data.corpus, self.experiment.dataset
        translator = Translator(self.model, corpus.source, corpus.target, dataset.longest)
        pairs = corpus.texts["test"][: self.experiment.debug.windows]
        sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.experiment.trainer.precision == "bf16"):
            before = time.perf_counter()
            outputs = translator.translate(sources)
            decoding_seconds = time.perf_counter() - before
            metrics, notes = scores(outputs, references)
            if not self.notes:
                self.notes = {**notes, "translations": outputs}
                before = time.perf_counter()
                translator.one_by_one(sources[: dataset.timed_sentences])
                self.inference_seconds = time.perf_counter() - before
        metrics |= {"decoding_seconds": decoding_seconds, "inference_seconds": self.inference_seconds}
        return {**metrics, **sample_bleu(translator), **sparsity(self.model)}
