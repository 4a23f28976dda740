"""What scores a translation: BLEU, chrF; and how sparse a model is."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from highway.config.metrics import SPARSE
from highway.tasks.decoding import Translator

SAMPLES = (  # of the tutorial that the paper builds on, with their references
    ("este é um problema que temos que resolver .", "this is a problem we have to solve ."),
    ("os meus vizinhos ouviram sobre esta ideia .", "and my neighboring homes heard about this idea ."),
    (
        "vou então muito rapidamente partilhar convosco algumas histórias de algumas coisas mágicas que aconteceram .",
        "so i 'll just share with you some stories very quickly of some magical things that have happened .",
    ),
    ("este é o primeiro livro que eu fiz .", "this is the first book i 've ever done ."),
)


def scores(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[dict[str, float], dict[str, Any]]:
    """Corpus BLEU and chrF on lower-cased text as the data has it, split at blanks; and what a record notes of them:
    sacreBLEU's signatures, and of each sentence the counts that corpus BLEU is a function of."""
    from sacrebleu.metrics import BLEU, CHRF

    found, signatures = {}, {}
    for name, metric in (("bleu", BLEU(tokenize="none", force=True)), ("chrf", CHRF())):
        found[name] = metric.corpus_score(list(hypotheses), [list(references)]).score
        signatures[name] = str(metric.get_signature())
    single = BLEU(tokenize="none", effective_order=True)  # counts the same, and expects single sentences
    scored = [single.sentence_score(*pair) for pair in zip(hypotheses, ([one] for one in references), strict=True)]
    counts = [" ".join(map(str, (one.sys_len, one.ref_len, *one.counts, *one.totals))) for one in scored]
    return found, {"signatures": signatures, "bleu_counts": counts}


def sample_bleu(translator: Translator) -> dict[str, float]:
    """BLEU of the tutorial's sentences, one by one: why single-sentence scores tie across models, as in the paper."""
    from sacrebleu.metrics import BLEU

    metric = BLEU(tokenize="none", effective_order=True)
    outputs = translator.translate([source for source, _ in SAMPLES])
    values = [
        metric.sentence_score(output, [reference]).score
        for output, (_, reference) in zip(outputs, SAMPLES, strict=True)
    ]
    return {f"bleu_of_sentence_{number}": value for number, value in enumerate(values, start=1)}


def sparsity(model: nn.Module) -> dict[str, float]:
    """Percent of all parameters at or below each threshold; `sparsity` is that of the largest."""
    weights = torch.cat([parameter.detach().flatten().abs().float() for parameter in model.parameters()])
    found = {f"sparsity_{limit:g}": 100 * float((weights <= limit).float().mean()) for limit in SPARSE}
    return {**found, "sparsity": found[f"sparsity_{SPARSE[-1]:g}"]}
