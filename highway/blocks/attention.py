"""Multi-head dot-product attention with a causal mask, Eqs. 1-3 of Highway Transformer.

    head_i = softmax(Q_i K_i^T / sqrt(d)) V_i        Att = [head_1 ... head_h] W_o

One matrix product computes Q, K and V; every projection has a bias. Dropout applies to the attention
probabilities. Without dropout, torch's fused kernel computes the same result. The four maps start independently, or, as
in R-Transformer's code, as copies of one.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.blocks.layers import dropout
from highway.describe import uniform


class CausalAttention(nn.Module):
    def __init__(self, width: int, heads: int, dropout_rate: float, starts: str = "independent") -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout_rate
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        if starts == "copies":
            self._start_as_copies(width)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, T, D)
        batch, length, width = x.shape
        projected = self.query_key_value(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = projected.permute(2, 0, 3, 1, 4)  # each (B, H, T, D/H)
        if self.dropout > 0 and self.training:
            heads = self._materialised(query, key, value)
        else:
            heads = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(heads.transpose(1, 2).reshape(batch, length, width))

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
        output.starts = {
            "weight": lambda drawn, _: drawn.copy_(first.weight[:width]),
            "bias": lambda drawn, _: drawn.copy_(first.bias[:width]),
        }

    def _materialised(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Compute the heads by the plain equation. It is as fast on a CPU, where no fused kernel has dropout."""
        length = query.shape[2]
        future = torch.full((length, length), -math.inf, dtype=query.dtype, device=query.device).triu(1)
        scale = 1 / math.sqrt(query.shape[-1])
        scores = torch.baddbmm(future, (query * scale).flatten(0, 1), key.flatten(0, 1).transpose(1, 2))
        probabilities = dropout(scores.softmax(dim=-1), self.dropout, self.training)
        return (probabilities @ value.flatten(0, 1)).view_as(value)
