"""Translation of texts with a trained model: in batches of similar length, or sentence by sentence as in the papers."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from highway.cards.datasets import PADDING
from highway.models.ends import Pieces
from highway.models.search import Decoder, Recomputed, beam, decoder, greedy

TOGETHER = 128  # hypotheses in a batch


class Translator:
    """A trained model with its vocabularies: `source` and `target` encode text to pieces and decode it."""

    def __init__(self, model: Pieces, source: Any, target: Any, longest: int) -> None:
        self.model, self.source, self.target = model, source, target
        self.longest = min(longest, model.backbone.longest or longest)

    def too_long(self, texts: Sequence[str]) -> int:
        """Count the texts that have more pieces than the model accepts, including the start and end symbols."""
        return sum(len(pieces) + 2 > self.longest for pieces in self.source.encode(list(texts)))

    def translate(
        self,
        texts: Sequence[str],
        beams: int = 1,
        penalty: float = 0.6,
        start: Callable[[Pieces, Tensor], Decoder] = decoder,
    ) -> list[str]:
        """Translate by greedy decoding (beams=1) or beam search, in batches of similar length.

        A translation ends at its end symbol or after `longest` pieces.
        """
        training = self.model.training
        self.model.eval()
        pieces = self.source.encode(list(texts), add_bos=True, add_eos=True)
        translations = [""] * len(texts)  # an empty text stays empty
        order = sorted((row for row in range(len(texts)) if pieces[row][1:-1]), key=lambda row: len(pieces[row]))
        together = max(TOGETHER // beams, 1)
        for first in range(0, len(order), together):
            rows = order[first : first + together]
            batch = self.padded([pieces[row][: self.longest] for row in rows])
            if beams == 1:
                outputs = greedy(self.model, batch, self.longest, start)
            else:
                outputs = beam(self.model, batch, self.longest, beams, penalty, start)
            for row, output in zip(rows, self.target.decode(outputs), strict=True):
                translations[row] = output
        self.model.train(training)
        return translations

    def one_by_one(self, texts: Sequence[str]) -> list[str]:
        """Translate as the paper does: sentence by sentence, with encoder and prefix recomputed for every piece."""
        return [self.translate([text], start=Recomputed)[0] for text in texts]

    def padded(self, rows: list[list[int]]) -> Tensor:
        """Return rows of piece numbers as a tensor (rows, longest row), padded at the end."""
        length = max(map(len, rows))
        padded = [row + [PADDING] * (length - len(row)) for row in rows]
        return torch.tensor(padded, device=self.model.source_embedding.weight.device)
