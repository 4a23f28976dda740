"""Metrics of translations (BLEU, chrF), and the sparsity of a model's weights."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from highway.config.metrics import SPARSE
from highway.tasks.decoding import Translator

SAMPLES = (  # sentences of the tutorial on which the paper builds, with their references
    ("este é um problema que temos que resolver .", "this is a problem we have to solve ."),
    ("os meus vizinhos ouviram sobre esta ideia .", "and my neighboring homes heard about this idea ."),
    (
        "vou então muito rapidamente partilhar convosco algumas histórias de algumas coisas mágicas que aconteceram .",
        "so i 'll just share with you some stories very quickly of some magical things that have happened .",
    ),
    ("este é o primeiro livro que eu fiz .", "this is the first book i 've ever done ."),
)


def scores(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[dict[str, float], dict[str, Any]]:
    """Return corpus BLEU and chrF, and notes for the record.

    The text is scored as the data has it: lower-cased and split at blanks. The notes are sacreBLEU's signatures and,
    for each sentence, the counts from which corpus BLEU is computed.
    """
    from sacrebleu.metrics import BLEU, CHRF

    metrics, signatures = {}, {}
    for name, metric in (("bleu", BLEU(tokenize="none", force=True)), ("chrf", CHRF())):
        metrics[name] = metric.corpus_score(list(hypotheses), [list(references)]).score
        signatures[name] = str(metric.get_signature())
    per_sentence = BLEU(
        tokenize="none", effective_order=True
    )  # same counts as corpus BLEU; avoids sacreBLEU's warning for single sentences
    scored = [
        per_sentence.sentence_score(*pair)
        for pair in zip(hypotheses, ([reference] for reference in references), strict=True)
    ]
    counts = [" ".join(map(str, (score.sys_len, score.ref_len, *score.counts, *score.totals))) for score in scored]
    return metrics, {"signatures": signatures, "bleu_counts": counts}


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
