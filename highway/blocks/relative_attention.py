"""Multi-head attention by content and relative position, Eqs. 10-14 of Highway Transformer (Transformer-XL).

    A_ij = (W_q x_i + u) . (W_k x_j)  +  (W_q x_i + v) . (W_r R_{i-j})        softmax(A / sqrt(d)) V

The second product is computed for every query and every distance, and then shifted so that column j holds the
distance i - j. With one distance more than there are keys, the shift is a view that moves no element.

Shapes: B lanes, T queries, K keys, D width, H heads of width d.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from highway.blocks.layers import dropout


class RelativeAttention(nn.Module):
    def __init__(self, width: int, heads: int, head_width: int, dropout_rate: float) -> None:
        super().__init__()
        self.heads = heads
        self.scale = 1 / math.sqrt(head_width)
        self.dropout = dropout_rate
        inner = heads * head_width
        self.query = nn.Linear(width, inner, bias=False)
        self.key_value = nn.Linear(width, 2 * inner, bias=False)
        self.position = nn.Linear(width, inner, bias=False)
        self.output = nn.Linear(inner, width, bias=False)

    def forward(self, reads: Tensor, distances: Tensor, u: Tensor, v: Tensor, unseen: Tensor) -> Tensor:
        """Return the output (B, T, D) for the last T positions of reads (B, K, D), which holds the memory first.

        distances (K+1, D): codes of the distances, the farthest first. u and v: (H, d).
        unseen (T, K): True where a query must not see a key.
        """
        batch, length = reads.shape[0], unseen.shape[0]
        query = self.query(reads[:, -length:]) * self.scale
        key, value = self.key_value(reads).chunk(2, dim=-1)
        by_content, by_position = (query + bias.flatten() * self.scale for bias in (u, v))
        encoded = self.position(distances).view(-1, self.heads, u.shape[1]).permute(1, 2, 0)  # (H, d, K+1)
        products = torch.bmm(self._by_head(by_position).view(self.heads, batch * length, -1), encoded)
        scores = torch.baddbmm(
            shifted(products.view(self.heads * batch, length, -1)),
            self._by_head(by_content),
            self._by_head(key).transpose(1, 2),
        )
        scores = scores.masked_fill_(unseen, -math.inf)
        probabilities = dropout(scores.softmax(dim=-1), self.dropout, self.training)
        heads = torch.bmm(probabilities.to(value.dtype), self._by_head(value))  # (H B, T, d)
        return self.output(heads.view(self.heads, batch, length, -1).permute(1, 2, 0, 3).flatten(2))

    def _by_head(self, x: Tensor) -> Tensor:
        """Split the heads: (B, T, H d) -> (H B, T, d)."""
        batch, length, _ = x.shape
        return x.view(batch, length, self.heads, -1).permute(2, 0, 1, 3).reshape(self.heads * batch, length, -1)


class Shift(torch.autograd.Function):
    """Shift (N, T, K+1), column c at distance K-1-c, to (N, T, K), column j of row i at distance i+M-j; M = K-T.

    Row i has to move left by T-1-i. Reading the same memory in rows of K elements instead of K+1 has this effect.
    Beyond distance 0, which no query may see, the values of the next row appear. The backward pass is written out:
    torch's own first fills the whole gradient of a view with zeros, which took a tenth of a training step on a CPU.
    """

    @staticmethod
    def forward(context: Any, products: Tensor) -> Tensor:
        count, length, columns = products.shape
        keys = columns - 1
        return products.flatten(1)[:, length - 1 : length - 1 + length * keys].view(count, length, keys)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        count, length, keys = gradient.shape
        before = length - 1
        whole = gradient.new_empty(count, length * (keys + 1))
        whole[:, :before] = 0
        whole[:, before : before + length * keys] = gradient.flatten(1)
        whole[:, before + length * keys :] = 0
        return whole.view(count, length, keys + 1)


shifted: Callable[[Tensor], Tensor] = Shift.apply
