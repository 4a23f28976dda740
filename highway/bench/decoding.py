"""Measure how fast a trained model translates: the paper's way against ours, on the same sentences in one process."""

import time
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

from highway.tasks.decoding import Translator
from highway.tasks.translation import scores
from highway.use.load import load

WARM_UP = 4  # sentences


def decoded(
    directory: Path, sentences: int, device: str, precisions: tuple[str, ...] = ("32", "bf16")
) -> dict[str, Any]:
    """Measure each way to translate the first test sentences: seconds, BLEU, texts equal to the first way's."""
    trained = load(directory, False, "translation")
    model, corpus = trained.model, trained.streams
    longest = trained.experiment.dataset.longest
    of = partial(Translator, source=corpus.source, target=corpus.target, longest=longest)
    translators = {"32": of(model.to(device)), "bf16": of(deepcopy(model).bfloat16())}
    ways: dict[str, Callable[[list[str]], list[str]]] = {"the paper's way, 32": translators["32"].one_by_one}
    for precision in precisions:
        ours = translators[precision].translate
        ways |= {f"ours, {precision}": ours, f"ours, beam 4, {precision}": partial(ours, beams=4)}
    sources, references = ([pair[side] for pair in corpus.texts["test"][:sentences]] for side in (0, 1))
    rows: list[dict[str, Any]] = []
    expected: list[str] = []
    for name, translate in ways.items():
        translate(sources[:WARM_UP])
        before = time.perf_counter()
        texts = translate(sources)
        seconds = time.perf_counter() - before
        expected = expected or texts
        rows.append(
            {
                "name": name,
                "seconds": round(seconds, 3),
                "ratio": round(rows[0]["seconds"] / seconds, 2) if rows else 1.0,
                "bleu": round(scores(texts, references)[0]["bleu"], 2),
                "same": sum(text == other for text, other in zip(texts, expected, strict=True)),
            }
        )
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {"cell": directory.resolve().parent.name, "sentences": len(sources), "parameters": parameters, "rows": rows}
