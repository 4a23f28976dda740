"""Greedy and beam search for the target of a source, with a decoder that caches earlier positions or recomputes them.

A decoder has `step(newest)`, which returns the logits of the next symbol, and `select(rows)`, which keeps or repeats
rows of its batch. Shapes: B rows, S source positions, V vocabulary.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from highway.blocks.scored_attention import Past
from highway.cards.datasets import END, START
from highway.models.ends import Pieces

DROPPED = 1 / 8  # fraction of the rows that must have ended before they are removed


class Decoder(Protocol):
    def step(self, newest: Tensor) -> Tensor: ...  # (B, 1) -> (B, V)

    def select(self, rows: Tensor) -> None: ...


class Cached:
    """A decoder that encodes the source once and caches keys and values; a step computes one new position."""

    def __init__(self, model: Pieces, source: Tensor) -> None:
        encoded = model.encode(source)
        self.model, self.mask = model, encoded.mask
        self.source = [(keys.contiguous(), values.contiguous()) for keys, values in model.backbone.keys_values(encoded)]
        self.pasts = [Past() for _ in model.backbone.decoder]
        self.texts = source.unique(dim=0, return_inverse=True)[1]  # for each row, the number of its source text
        self.position = 0

    def step(self, newest: Tensor) -> Tensor:
        logits = self.model.step(newest, self.position, self.source, self.mask, self.pasts)
        self.position += 1
        return logits

    def select(self, rows: Tensor) -> None:
        texts = self.texts[rows]
        if not torch.equal(texts, self.texts):  # mostly, hypotheses only change order within their text
            self.source = [(keys[rows], values[rows]) for keys, values in self.source]
            self.mask, self.texts = self.mask[rows], texts
        for past in self.pasts:
            past.select(rows)


class Recomputed:
    """A decoder that runs the whole model over source and prefix at every step, as the paper's inference does."""

    def __init__(self, model: Pieces, source: Tensor) -> None:
        self.model, self.source = model, source
        self.prefix = source[:, :0]

    def step(self, newest: Tensor) -> Tensor:
        self.prefix = torch.cat((self.prefix, newest), dim=1)
        return self.model.logits(self.model(self.source, self.prefix)[:, -1])

    def select(self, rows: Tensor) -> None:
        self.source, self.prefix = self.source[rows], self.prefix[rows]


def decoder(model: Pieces, source: Tensor) -> Decoder:
    """Return the cached decoder if it is exact for this model, else the decoder that recomputes."""
    return (Cached if model.backbone.decodes_by_step else Recomputed)(model, source)


@torch.inference_mode()
def greedy(
    model: Pieces,
    source: Tensor,
    limit: int,
    start: Callable[[Pieces, Tensor], Decoder] = decoder,
) -> list[list[int]]:
    """Return for each row of source (B, S) the likeliest symbol of every step, up to its END or `limit` symbols."""
    going, ongoing = start(model, source), torch.arange(len(source), device=source.device)
    texts = torch.full((len(source), limit), END, device=source.device)
    newest = torch.full_like(source[:, :1], START)
    ended = torch.zeros_like(ongoing, dtype=torch.bool)
    for position in range(limit):
        best = going.step(newest).argmax(-1)
        texts[ongoing, position] = best
        ended = ended | (best == END)
        left = (~ended).nonzero()[:, 0]
        if len(left) == 0:
            break
        if len(left) <= (1 - DROPPED) * len(best):  # fewer rows are cheaper, but selecting them costs a copy
            going.select(left)
            ongoing, best, ended = ongoing[left], best[left], ended[left]
        newest = best[:, None]
    return [_until_end(row) for row in texts.tolist()]


@torch.inference_mode()
def beam(
    model: Pieces,
    source: Tensor,
    limit: int,
    width: int,
    penalty: float = 0.6,
    start: Callable[[Pieces, Tensor], Decoder] = decoder,
) -> list[list[int]]:
    """Return for each row of source (B, S) the best of `width` hypotheses, of at most `limit` symbols.

    A hypothesis scores its log-probability divided by ((5 + length) / 6) ** penalty (Wu et al., 2016).
    """
    rows, device = len(source), source.device
    going = start(model, source.repeat_interleave(width, dim=0))
    ongoing = list(range(rows))  # the source row of every group of `width` hypotheses
    scores = torch.full((rows, width), -torch.inf, device=device)
    scores[:, 0] = 0.0  # all hypotheses start alike, so only the first counts
    texts = torch.full((rows, width, 1), START, device=device)
    done: list[list[tuple[float, list[int]]]] = [[] for _ in range(rows)]
    for position in range(limit):
        logits = going.step(texts[:, :, -1].reshape(-1, 1))
        total = scores[:, :, None] + logits.float().log_softmax(-1).view(len(ongoing), width, -1)
        symbols = total.shape[-1]
        values, choices = total.flatten(1).topk(2 * width, dim=1)  # at most `width` of these end
        parents, newest = choices // symbols, choices % symbols
        ends = newest == END
        for group, hypothesis in (ends[:, :width] & values[:, :width].isfinite()).nonzero().tolist():
            text = texts[group, parents[group, hypothesis], 1:].tolist()
            value = float(values[group, hypothesis]) / _penalty(len(text) + 1, penalty)
            done[ongoing[group]].append((value, text))
        order = ends.long().argsort(dim=1, stable=True)[:, :width]  # the best that do not end
        scores, newest, parents = (part.gather(1, order) for part in (values, newest, parents))
        texts = torch.cat((texts.gather(1, parents[..., None].expand(-1, -1, position + 1)), newest[..., None]), dim=2)
        best_possible = (scores[:, 0] / _penalty(limit, penalty)).tolist()
        unfinished = [
            group
            for group, row in enumerate(ongoing)
            if len(done[row]) < width or max(done[row])[0] < best_possible[group]
        ]
        if not unfinished:
            break
        groups = torch.tensor(unfinished, device=device)
        going.select((groups[:, None] * width + parents[groups]).flatten())
        scores, texts, ongoing = scores[groups], texts[groups], [ongoing[group] for group in unfinished]
    for group, row in enumerate(ongoing):  # hypotheses that reached the limit
        done[row].append((float(scores[group, 0]) / _penalty(limit, penalty), texts[group, 0, 1:].tolist()))
    return [max(hypotheses)[1] for hypotheses in done]


def _penalty(length: int, power: float) -> float:
    return ((5 + length) / 6) ** power


def _until_end(symbols: list[int]) -> list[int]:
    return symbols[: symbols.index(END)] if END in symbols else symbols
