"""Score gates of Gated ResNet Transformer (Mahde and Hassan), Eqs. 2-9: they add earlier layers' attention scores.

S are this layer's raw scores, Q K^T / sqrt(d) before any mask. P is the sum of the raw scores of the last 1, 2 or 3
layers.

    none         softmax(mask(S)) V
    realformer   softmax(mask(S + P)) V                             R; M2 and M3 with two and three layers
    gated        softmax(mask(S + P * psi(P W + B))) V              G1, G2, G3

A layer hands on its scores before its own gate. With `accumulated`, P is the sum over all earlier layers, which is
RealFormer's own definition. P has a column for each key, so P W mixes keys. The gated form therefore first sets P to
zero where a key may not be seen (the future, padding). The formula as printed (`as_printed`) omits this step, and so
reads the future.

W and B are (length, length), cropped to the keys at hand; row i of B belongs to the query at position i.
Shapes: B rows, H heads, Q queries, K keys.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from highway.cards.gates import ScoreGateOptions
from highway.describe import MAP, ZERO
from highway.errors import Refused
from highway.gates.gate import Gate, build_gate
from highway.gates.residual import ACTIVATIONS


class Scores(Gate):
    def __init__(self, predecessors: int, heads: int, options: ScoreGateOptions) -> None:
        super().__init__()

    def forward(self, scores: Tensor, earlier: Sequence[Tensor], mask: Tensor, first_query: int) -> Tensor:
        return scores


class ResidualScores(Gate):
    def __init__(self, predecessors: int, heads: int, options: ScoreGateOptions) -> None:
        super().__init__()
        self.predecessors = predecessors

    def forward(self, scores: Tensor, earlier: Sequence[Tensor], mask: Tensor, first_query: int) -> Tensor:
        """Add earlier scores; scores and each of earlier are (B, H, Q, K). mask is 0 where a key may be seen."""
        return sum(earlier[-self.predecessors :], start=scores)


class GatedScores(Gate):
    starts = {"weight": MAP, "bias": ZERO}

    def __init__(self, predecessors: int, heads: int, options: ScoreGateOptions) -> None:
        super().__init__()
        self.predecessors = predecessors
        self.psi = ACTIVATIONS[options.activation]
        self.length = options.length
        self.reads_the_future = options.as_printed
        shape = (predecessors if options.each else 1, heads if options.per_head else 1, options.length, options.length)
        self.weight = nn.Parameter(torch.zeros(shape))
        self.bias = nn.Parameter(torch.zeros(shape))

    def forward(self, scores: Tensor, earlier: Sequence[Tensor], mask: Tensor, first_query: int) -> Tensor:
        """Add gated earlier scores; scores and each of earlier are (B, H, Q, K), from query first_query on."""
        queries, keys = scores.shape[-2:]
        needed = max(keys, first_query + queries)
        if needed > self.length:
            raise Refused(
                f"the score gate has weights for {self.length} positions, and this text has {needed}: "
                f"cut it, or train with gate.score.length={needed}."
            )
        carried = list(earlier[-self.predecessors :])
        if len(self.weight) == 1:
            carried = [torch.stack(carried).sum(0) if len(carried) > 1 else carried[0]]
        rows = slice(first_query, first_query + queries)
        for part, weight, bias in zip(carried, self.weight, self.bias, strict=True):
            visible = part if self.reads_the_future else part * (mask == 0)
            mixed = visible @ _of_one_head(weight[:, :keys, :keys]) + bias[:, rows, :keys]
            scores = scores + visible * self.psi(mixed)
        return scores


def _of_one_head(weight: Tensor) -> Tensor:  # (1, K, K) -> (K, K): one large product instead of many small ones
    return weight[0] if len(weight) == 1 else weight


def score_gate(options: ScoreGateOptions, layer: int, heads: int) -> nn.Module:
    """Build the gate of one attention in layer `layer` (from 1); layer 1 has no earlier scores, so no gate."""
    predecessors = layer - 1 if options.accumulated else min(options.predecessors, layer - 1)
    return build_gate("score", options.name if predecessors else "none", predecessors, heads, options)
