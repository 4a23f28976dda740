"""Translation: cross-entropy and accuracy on the target's pieces, padding left out; then BLEU of what is decoded."""

import time
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from highway.config.symbols import PADDING
from highway.data.pairs import PairBatch, TranslationData
from highway.tasks.decoding import Translator, sample_bleu, scores, sparsity
from highway.tasks.task import Task


class Translation(Task):
    """The model is (source, inputs) -> features, and logits(features)."""

    def tokens(self, batch: PairBatch) -> int:
        return batch.scored

    def training_step(self, batch: PairBatch, batch_idx: int) -> Tensor:
        total = self._loss(self._logits(batch), batch, self.experiment.optimizer.label_smoothing)
        return total * self.trainer.world_size / batch.scored  # the average over devices is the mean of all pieces

    def score(self, batch: PairBatch) -> None:
        logits = self._logits(batch)
        right = (logits.argmax(-1) == batch.targets) & (batch.targets != PADDING)
        self.add(self._loss(logits, batch), right.sum(), batch.scored)

    def results(self, sums: list[float]) -> dict[str, float]:
        return {"loss": sums[0] / sums[2], "accuracy": sums[1] / sums[2]}

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
        """Every sentence of the test set, decoded greedily. Notes and the time of inference are of the last weights."""
        assert isinstance(data, TranslationData)
        corpus, dataset = data.corpus, self.experiment.dataset
        translator = Translator(self.model, corpus.source, corpus.target, dataset.longest)
        pairs = corpus.texts["test"][: self.experiment.debug.windows]
        sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.experiment.trainer.precision == "bf16"):
            before = time.perf_counter()
            outputs = translator.translate(sources)
            decoding_seconds = time.perf_counter() - before
            found, notes = scores(outputs, references)
            if not self.notes:
                self.notes = {**notes, "translations": outputs}
                before = time.perf_counter()
                translator.one_by_one(sources[: dataset.timed_sentences])
                self.inference_seconds = time.perf_counter() - before
        found |= {"decoding_seconds": decoding_seconds, "inference_seconds": self.inference_seconds}
        return {**found, **sample_bleu(translator), **sparsity(self.model)}
