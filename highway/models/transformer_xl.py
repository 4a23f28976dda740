"""The Transformer-XL of Highway Transformer (Chai et al., 2020), sections 2.3 and 4.3.

    H_0 = drop(x)                                             a segment of T vectors
    U_l = LN(gate(H_l, drop(Att([M_l; H_l]))))                Eqs. 10-17: queries from the segment, keys and values
    H_l+1 = LN(gate(U_l, drop(FFN(U_l))))                     from memory and segment, positions by their distance
    M_l = the last M of [M_l; H_l], without gradient          the memory of block l for the next segment
    features = drop(H_L)

Post-norm as printed; pre-norm normalises what a sublayer reads. All layers share u and v. The memory has its full
length M from the first step on, and the state counts its filled positions, so that shapes never change. `context` gives
M, the distance at which positions are clamped, and whether every query sees equally far.

Shapes: B lanes, T positions of a segment, M positions of memory, K = M + T keys, C > K distances, D width, H heads of
width d.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.blocks.layers import FeedForward, LayerNorm, Sublayer, distance_codes, dropout
from highway.cards.datasets import NO_MEMORY, Context
from highway.cards.models import TransformerXL
from highway.config.experiment import Gating
from highway.describe import VECTOR
from highway.models.backbone import Backbone
from highway.models.initial import Normal

Memory = tuple[Tensor, ...]  # number of filled positions (B,), equal in all lanes; then (B, M, D) for each block


class RelativeAttention(nn.Module):
    """Multi-head attention by content and relative position, Eqs. 10-14, with H heads of width d and K keys.

    A_ij = (W_q x_i + u) . (W_k x_j)  +  (W_q x_i + v) . (W_r R_{i-j})        softmax(A / sqrt(d)) V

    The second product is computed for every query and every distance, and then shifted so that column j holds the
    distance i - j. With more distances than there are keys, the shift is a view that moves no element.
    """

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

        distances (C, D): codes of the K distances, the farthest first, then rows that no query sees. u and v: (H, d).
        unseen (T, K): True where a query must not see a key.
        """
        batch, length = reads.shape[0], unseen.shape[0]
        query = self.query(reads[:, -length:]) * self.scale
        key, value = self.key_value(reads).chunk(2, dim=-1)
        by_content, by_position = (query + bias.flatten() * self.scale for bias in (u, v))
        encoded = self.position(distances).view(-1, self.heads, u.shape[1]).permute(1, 2, 0)  # (H, d, C)
        products = torch.bmm(self._by_head(by_position).view(self.heads, batch * length, -1), encoded)
        scores = torch.baddbmm(
            shifted(products.view(self.heads * batch, length, -1), reads.shape[1]),
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


def shifted(products: Tensor, keys: int) -> Tensor:
    """Shift (N, T, C), column c at distance K-1-c, to a view (N, T, K), column j of row i at distance i+M-j; M = K-T.

    Row i has to move left by T-1-i. Reading the same memory in rows of C-1 elements instead of C has this effect.
    Beyond distance 0, which no query may see, other columns or the next row appear. One `as_strided` instead of
    slices, because each slice would fill another tensor of zeros in the backward pass; products must therefore begin
    at the start of their memory, as the result of a product does.
    """
    count, length, columns = products.shape
    return products.as_strided((count, length, keys), (length * columns, columns - 1, 1), length - 1)


def aligned(codes: Tensor, multiple: int) -> Tensor:
    """Add rows of zeros up to a multiple, because a GPU multiplies matrices of odd sizes more slowly."""
    return F.pad(codes, (0, 0, 0, -len(codes) % multiple))


class Block(nn.Module):
    def __init__(self, model: TransformerXL, gating: Gating, layer: int) -> None:
        super().__init__()

        def sublayer(function: nn.Module, location: str) -> Sublayer:
            norm = LayerNorm(model.width, "biased")
            return Sublayer(function, gating, layer, location, model.width, norm, model.norm, model.dropout)

        attention = RelativeAttention(model.width, model.heads, model.head_width, model.dropout_attention)
        feed_forward = FeedForward(model.width, model.feed_forward, model.dropout)
        self.attention = sublayer(attention, "attention")
        self.feed_forward = sublayer(feed_forward, "feed_forward")

    def forward(self, x: Tensor, memory: Tensor, distances: Tensor, u: Tensor, v: Tensor, unseen: Tensor) -> Tensor:
        return self.feed_forward(self.attention(x, memory, distances, u, v, unseen))


class TransformerXLBackbone(Backbone):
    starts = {"content_bias": VECTOR, "position_bias": VECTOR}

    def __init__(self, model: TransformerXL, gating: Gating) -> None:
        super().__init__()
        self.family = Normal(model.init_deviation)
        self.content_bias = nn.Parameter(torch.empty(model.heads, model.head_width))  # u
        self.position_bias = nn.Parameter(torch.empty(model.heads, model.head_width))  # v
        self.dropout = model.dropout
        self.codes: Tensor
        self.register_buffer("codes", torch.empty(0, model.width), persistent=False)
        self.blocks = nn.ModuleList(Block(model, gating, layer) for layer in range(1, model.layers + 1))

    def forward(self, x: Tensor, state: Memory | None = None, context: Context = NO_MEMORY) -> tuple[Tensor, Memory]:
        """Return features (B, T, D) and the new memory, from x (B, T, D) and the memory of the previous segment."""
        length = x.shape[1]
        filled, *memories = state or self._empty_memory(x, context.memory)
        size = memories[0].shape[1]
        unseen = unseen_keys(length, size, filled[:1], context.same_length)
        distances = dropout(self._distances(size + length, context.clamp), self.dropout, self.training)
        distances = aligned(distances, 8 if x.is_cuda else 1)
        x = dropout(x, self.dropout, self.training)
        left = []
        for block, memory in zip(self.blocks, memories, strict=True):
            left.append(last_positions(memory, x.to(memory.dtype)))
            x = block(x, memory, distances, self.content_bias, self.position_bias, unseen)
        return dropout(x, self.dropout, self.training), ((filled + length).clamp(max=size), *left)

    def _empty_memory(self, x: Tensor, size: int) -> Memory:
        empty = x.new_zeros(x.shape[0], size, x.shape[2])
        return torch.zeros(x.shape[0], dtype=torch.int64, device=x.device), *(empty for _ in self.blocks)

    def _distances(self, keys: int, clamp: int | None) -> Tensor:
        """Return codes (keys+1, D) of the distances keys-1 ... 0, and of one more that no query sees."""
        if self.codes.shape[0] < keys:
            self.codes = distance_codes(keys, self.codes.shape[1]).to(self.codes)
        distance = torch.arange(keys - 1, -2, -1, device=self.codes.device).clamp(min=0, max=clamp)
        return self.codes[distance]


def last_positions(memory: Tensor, x: Tensor) -> Tensor:
    """Return the last M positions of memory and segment (B, T, D); a view, without a copy, if T >= M."""
    size, length = memory.shape[1], x.shape[1]
    if length >= size:
        return x[:, length - size :]
    return torch.cat((memory[:, length:], x), dim=1)


def unseen_keys(length: int, memory: int, filled: Tensor, same_length: bool) -> Tensor:
    """Return a mask (T, M+T), True where a query must not see a key: later keys and memory that is not filled yet.

    same_length: every query sees the last M keys, itself included; otherwise later queries see more.
    """
    query = torch.arange(length, device=filled.device)[:, None]
    key = torch.arange(memory + length, device=filled.device)[None]
    unseen = (key > query + memory) | (key < memory - filled)
    return unseen | (key <= query) if same_length else unseen
