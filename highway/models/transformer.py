"""The Transformer of Highway Transformer (Chai et al., 2020), sections 2.1-2.2 and 3.

    head_i = softmax(Q_i K_i^T / sqrt(d)) V_i       Eqs. 1-3
    Att(X) = [head_1 ... head_h] W_o
    X = drop(x + PE)                                Eq. 6; the dropout is `dropout_positions`, 0 by default
    post-norm   U = LN(gate(X, Att(X)))             Eqs. 7, 23
                O = LN(gate(U, FFN(U)))             Eqs. 9, 24
    pre-norm    U = gate(X, Att(LN X))              as in R-Transformer's code, from which the PTB
                O = gate(U, FFN(LN U))              numbers come; no norm after the last block, but
                                                    with `final_norm`

Without a gate, gate(x, f) is x + f; highway/gates/residual.py has the others.

Shapes: B lanes, T positions, D width, H heads.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.blocks.layers import FeedForward, LayerNorm, Sublayer, dropout, sinusoids
from highway.cards.models import Blocks, Transformer
from highway.config.experiment import Gating
from highway.describe import MAP_BIAS, Kind, copied, uniform
from highway.models.backbone import Backbone
from highway.models.initial import LikeTorch


class StackedMaps(nn.Linear):
    """Three maps of one input, stacked."""

    starts = {"weight": Kind("map", 3), "bias": MAP_BIAS}


class CausalAttention(nn.Module):
    """Multi-head dot-product attention with a causal mask, Eqs. 1-3.

    One matrix product computes Q, K and V; every projection has a bias. Dropout applies to the attention probabilities;
    without it, torch's fused kernel computes the same result. The four maps start independently, or, as in
    R-Transformer's code, as copies of one.
    """

    def __init__(self, width: int, heads: int, dropout_rate: float, init: str = "independent") -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout_rate
        self.query_key_value = StackedMaps(width, 3 * width)
        self.output = nn.Linear(width, width)
        if init == "copies":
            self._start_as_copies(width)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, T, D)
        batch, length, width = x.shape
        projected = self.query_key_value(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = projected.permute(2, 0, 3, 1, 4)  # each (B, H, T, D/H)
        if self.dropout > 0 and self.training:
            heads = self._with_dropout(query, key, value)
        else:
            heads = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(heads.transpose(1, 2).reshape(batch, length, width))

    def _with_dropout(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Compute the heads by the plain equation, as fast on a CPU, where no fused kernel has dropout."""
        length = query.shape[2]
        future = torch.full((length, length), -math.inf, dtype=query.dtype, device=query.device).triu(1)
        scale = 1 / math.sqrt(query.shape[-1])
        scores = torch.baddbmm(future, (query * scale).flatten(0, 1), key.flatten(0, 1).transpose(1, 2))
        probabilities = dropout(scores.softmax(dim=-1), self.dropout, self.training)
        return (probabilities @ value.flatten(0, 1)).view_as(value)

    def _start_as_copies(self, width: int) -> None:
        draw = uniform(1 / math.sqrt(width))

        def three_copies(drawn: Tensor, generator: torch.Generator) -> None:
            query, key, value = drawn.chunk(3)
            draw(query, generator)
            key.copy_(query)
            value.copy_(query)

        first: Any = self.query_key_value
        output: Any = self.output
        first.starts = dict.fromkeys(("weight", "bias"), three_copies)
        output.starts = {name: copied(first, name, width) for name in first.starts}


class Block(nn.Module):
    def __init__(self, model: Blocks, gating: Gating, layer: int) -> None:
        super().__init__()

        def sublayer(function: nn.Module, location: str) -> Sublayer:
            norm = LayerNorm(model.width, model.norm_deviation)
            return Sublayer(function, gating, layer, location, model.width, norm, model.norm, model.dropout)

        init = model.init_attention if model.init_maps == "torch" else "independent"
        attention = CausalAttention(model.width, model.heads, model.dropout_attention, init)
        feed_forward = FeedForward(model.width, model.feed_forward, model.dropout_feed_forward)
        self.attention = sublayer(attention, "attention")
        self.feed_forward = sublayer(feed_forward, "feed_forward")

    def forward(self, x: Tensor) -> Tensor:
        return self.feed_forward(self.attention(x))


def final_norm(model: Blocks) -> nn.Module:
    """Return the norm after the last block; the identity without `final_norm`, and after post-norm."""
    has_norm = model.final_norm and model.norm == "pre"
    return LayerNorm(model.width, model.norm_deviation) if has_norm else nn.Identity()


class TransformerBackbone(Backbone):
    def __init__(self, model: Transformer, gating: Gating) -> None:
        super().__init__()
        self.family = LikeTorch(model.init_embedding, model.init_embedding_as, model.init_maps)
        self.positions: Tensor
        self.register_buffer("positions", torch.empty(0, model.width), persistent=False)
        self.dropout = model.dropout_positions
        self.blocks = nn.ModuleList(Block(model, gating, layer) for layer in range(1, model.layers + 1))
        self.norm = final_norm(model)

    def forward(self, x: Tensor, state: None = None) -> tuple[Tensor, None]:
        """Compute features (B, T, D) from x (B, T, D); a Transformer carries no state."""
        x = dropout(x + self._positions(x.shape[1]).to(x), self.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        return self.norm(x), None

    def _positions(self, length: int) -> Tensor:
        if self.positions.shape[0] < length:
            self.positions = sinusoids(length, self.positions.shape[1]).to(self.positions)
        return self.positions[:length]
