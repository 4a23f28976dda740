"""Text to text with a trained model: sentences of like length together, or one by one as the papers do."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from highway.config.datasets import PADDING
from highway.models.pieces import Pieces
from highway.models.search import Decoder, Recomputed, beam, decoder, greedy

TOGETHER = 128  # hypotheses decoded at once


class Translator:
    def __init__(self, model: Pieces, source: Any, target: Any, longest: int) -> None:
        self.model, self.source, self.target = model, source, target
        self.longest = min(longest, model.backbone.longest or longest)

    def too_long(self, texts: Sequence[str]) -> int:
        """How many texts have more pieces than the model takes, start and end included."""
        return sum(len(pieces) + 2 > self.longest for pieces in self.source.encode(list(texts)))

    def translate(
        self,
        texts: Sequence[str],
        beams: int = 1,
        penalty: float = 0.6,
        start: Callable[[Pieces, Tensor], Decoder] = decoder,
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
            batch = self.padded([pieces[row][: self.longest] for row in rows])
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

    def padded(self, rows: list[list[int]]) -> Tensor:
        length = max(map(len, rows))
        padded = [row + [PADDING] * (length - len(row)) for row in rows]
        return torch.tensor(padded, device=self.model.source_embedding.weight.device)
