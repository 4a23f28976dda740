"""Text to text with a trained model, and what scores it: BLEU, chrF, sparsity, and how long inference takes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid
from torch import Tensor, nn

from highway.blocks.scored_attention import ScoredAttention
from highway.config.symbols import PADDING
from highway.errors import Refused
from highway.models.encoder_decoder import EncoderDecoderModel
from highway.models.search import Decoder, Recomputed, beam, decoder, greedy
from highway.use.load import load

TOGETHER = 128  # hypotheses decoded at once
THRESHOLDS = (0.0, 1e-4, 1e-3, 2e-3, 5e-3)  # of a weight that counts as zero; the paper names none
SAMPLES = (  # of the tutorial that the paper builds on, with their references
    ("este é um problema que temos que resolver .", "this is a problem we have to solve ."),
    ("os meus vizinhos ouviram sobre esta ideia .", "and my neighboring homes heard about this idea ."),
    (
        "vou então muito rapidamente partilhar convosco algumas histórias de algumas coisas mágicas que aconteceram .",
        "so i 'll just share with you some stories very quickly of some magical things that have happened .",
    ),
    ("este é o primeiro livro que eu fiz .", "this is the first book i 've ever done ."),
)


class Translator:
    def __init__(self, model: EncoderDecoderModel, source: Any, target: Any, longest: int) -> None:
        self.model, self.source, self.target = model, source, target
        self.longest = min(longest, model.longest or longest)

    @classmethod
    def of_cell(cls, directory: Path, last: bool = False) -> "Translator":
        """The trained model of a cell, with the pieces of the data that it was trained on."""
        experiment, model, corpus = load(directory, "translation", last)
        return cls(model, corpus.source, corpus.target, experiment.dataset.longest)

    def too_long(self, texts: Sequence[str]) -> int:
        """How many texts have more pieces than the model takes, start and end included."""
        return sum(len(pieces) + 2 > self.longest for pieces in self.source.encode(list(texts)))

    def translate(
        self,
        texts: Sequence[str],
        beams: int = 1,
        penalty: float = 0.6,
        start: Callable[[EncoderDecoderModel, Tensor], Decoder] = decoder,
    ) -> list[str]:
        """Greedy, or by beam search; sentences of like length together, each until its end or `longest` pieces."""
        training = self.model.training
        self.model.eval()
        pieces = self.source.encode(list(texts), add_bos=True, add_eos=True)
        found = [""] * len(texts)  # nothing is translated as nothing
        order = sorted((row for row in range(len(texts)) if pieces[row][1:-1]), key=lambda row: len(pieces[row]))
        together = max(TOGETHER // beams, 1)
        for first in range(0, len(order), together):
            rows = order[first : first + together]
            batch = self._padded([pieces[row][: self.longest] for row in rows])
            if beams == 1:
                outputs = greedy(self.model, batch, self.longest, start)
            else:
                outputs = beam(self.model, batch, self.longest, beams, penalty, start)
            for row, output in zip(rows, self.target.decode(outputs), strict=True):
                found[row] = output
        self.model.train(training)
        return found

    def one_by_one(self, texts: Sequence[str]) -> list[str]:
        """The paper's way: one sentence at a time, encoder and whole prefix computed anew for every piece."""
        return [self.translate([text], start=Recomputed)[0] for text in texts]

    def check_layer(self, layer: int) -> None:
        if not 1 <= layer <= len(self.model.decoder):
            raise Refused(f"--attention {layer}: the model has layers 1 to {len(self.model.decoder)}.")

    @torch.inference_mode()
    def show_attention(self, text: str, output: str, layer: int, console: Console) -> None:
        """Where each piece of the output looks, all heads together; with a score gate also how far it moved that."""
        source = self.source.encode(text, add_bos=True, add_eos=True)[: self.longest]
        target = self.target.encode(output, add_bos=True)[: self.longest]
        attention = self.model.decoder[layer - 1].get_submodule("cross.function")
        assert isinstance(attention, ScoredAttention)
        attention.watched = []
        self.model(self._padded([source]), self._padded([target]))
        before, after = (scores[0].softmax(-1).mean(0) for scores in attention.watched)
        attention.watched = None
        grid = Grid(box=SIMPLE_HEAD, title=f"cross-attention of layer {layer}, percent", title_justify="left")
        for head in ("", *(self.source.id_to_piece(piece) for piece in source), "moved by the gate"):
            grid.add_column(head, justify="right")
        heads = [self.target.id_to_piece(piece) for piece in target[1:]] + ["</s>"]
        for head, plain, gated in zip(heads, before, after, strict=True):
            cells = [f"{100 * value:.0f}" for value in gated.tolist()]
            grid.add_row(head, *cells, f"{50 * float((gated - plain).abs().sum()):.0f}")
        console.print(grid)

    def _padded(self, rows: list[list[int]]) -> Tensor:
        length = max(map(len, rows))
        padded = [row + [PADDING] * (length - len(row)) for row in rows]
        return torch.tensor(padded, device=self.model.source_embedding.weight.device)


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
    found = {f"sparsity_{limit:g}": 100 * float((weights <= limit).float().mean()) for limit in THRESHOLDS}
    return {**found, "sparsity": found[f"sparsity_{THRESHOLDS[-1]:g}"]}
