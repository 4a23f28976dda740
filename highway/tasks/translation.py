"""Translation: cross-entropy and accuracy on the target's pieces without padding; BLEU and chrF of the translations."""

import time
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.cards.datasets import PADDING
from highway.cards.metrics import SPARSE
from highway.data.pairs import PairBatch, TranslationData
from highway.tasks.decoding import Translator
from highway.tasks.task import Learnt, Task

SAMPLES = (  # sentences of the tutorial on which the paper builds, with their references
    ("este é um problema que temos que resolver .", "this is a problem we have to solve ."),
    ("os meus vizinhos ouviram sobre esta ideia .", "and my neighboring homes heard about this idea ."),
    (
        "vou então muito rapidamente partilhar convosco algumas histórias de algumas coisas mágicas que aconteceram .",
        "so i 'll just share with you some stories very quickly of some magical things that have happened .",
    ),
    ("este é o primeiro livro que eu fiz .", "this is the first book i 've ever done ."),
)


class Translation(Task):
    """Translation with a model that maps (source, inputs) to features."""

    counted = ("nats", "right", "scored")
    lengths_vary = True

    def tokens(self, batch: PairBatch) -> int:
        return batch.scored

    def learn(self, batch: PairBatch) -> Learnt:
        logits, smoothing = self._logits(batch), self.experiment.optimizer.label_smoothing
        total = self._loss(logits, batch, smoothing)
        nats = self._loss(logits.detach(), batch) if smoothing else total
        share = batch.scored / self.devices  # the average over devices is the mean of all pieces
        return Learnt(total / share, nats, (batch.targets != PADDING).sum().double())

    def score(self, batch: PairBatch) -> None:
        logits = self._logits(batch)
        scored = batch.targets != PADDING
        right = (logits.argmax(-1) == batch.targets) & scored
        self.add(nats=self._loss(logits, batch), right=right.sum(), scored=scored.sum())
        self.measure(logits[scored], batch.targets[scored])

    def results(self, counts: dict[str, float]) -> dict[str, float]:
        return {**super().results(counts), "accuracy": counts["right"] / counts["scored"]}

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

    def final_metrics(self, data: Any) -> dict[str, float]:
        """Translate the test set greedily and score it; notes and inference time are those of the last checkpoint."""
        assert isinstance(data, TranslationData)
        corpus, dataset = data.streams, self.experiment.dataset
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


def scores(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[dict[str, float], dict[str, Any]]:
    """Return corpus BLEU and chrF, and notes for the record.

    The text is scored as the data has it: lower-cased and split at blanks. The notes are sacreBLEU's signatures.
    """
    from sacrebleu.metrics import BLEU, CHRF

    metrics, signatures = {}, {}
    for name, metric in (("bleu", BLEU(tokenize="none", force=True)), ("chrf", CHRF())):
        metrics[name] = metric.corpus_score(list(hypotheses), [list(references)]).score
        signatures[name] = str(metric.get_signature())
    return metrics, {"signatures": signatures}


def sample_bleu(translator: Translator) -> dict[str, float]:
    """Return BLEU of each of the tutorial's sentences; with so few words, many models have the same BLEU."""
    from sacrebleu.metrics import BLEU

    metric = BLEU(tokenize="none", effective_order=True)
    outputs = translator.translate([source for source, _ in SAMPLES])
    values = [
        metric.sentence_score(output, [reference]).score
        for output, (_, reference) in zip(outputs, SAMPLES, strict=True)
    ]
    return {f"bleu_of_sentence_{number}": value for number, value in enumerate(values, start=1)}


def sparsity(model: nn.Module) -> dict[str, float]:
    """Return the percentage of parameters at or below each threshold; `sparsity` is that of the largest threshold."""
    weights = torch.cat([parameter.detach().flatten().abs().float() for parameter in model.parameters()])
    percents = {f"sparsity_{limit:g}": 100 * float((weights <= limit).float().mean()) for limit in SPARSE}
    return {**percents, "sparsity": percents[f"sparsity_{SPARSE[-1]:g}"]}
