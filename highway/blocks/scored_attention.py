"""Attention between any two sequences, with any head width and a gate on the scores.

    S = Q K^T / sqrt(d)        head = softmax(gate(S, earlier layers' S) + mask) V        Att = [head_1 ... head_h] W_o

The layers of a stack share a list of raw scores, to which each attention appends its own.

Shapes: B rows, H heads of width d, Q queries, K keys, T positions, D width.
"""

import math

from torch import Tensor, nn

from highway.blocks.layers import dropout
from highway.describe import MAP_BIAS, Kind

KeysValues = tuple[Tensor, Tensor]  # each (B, H, K, d)
Earlier = list[Tensor]


class Past:
    """The keys and values of positions decoded so far, in buffers whose size doubles when they are full."""

    def __init__(self) -> None:
        self.rooms: list[Tensor] = []
        self.filled = 0

    def extended(self, keys: Tensor, values: Tensor) -> KeysValues:
        before, self.filled = self.filled, self.filled + keys.shape[2]
        if not self.rooms or self.rooms[0].shape[2] < self.filled:
            batch, heads, _, width = keys.shape
            larger = [new.new_empty(batch, heads, max(2 * self.filled, 16), width) for new in (keys, values)]
            for room, full in zip(larger, self.rooms, strict=False):  # at first there are no buffers to copy
                room[:, :, :before] = full[:, :, :before]
            self.rooms = larger
        for room, new in zip(self.rooms, (keys, values), strict=True):
            room[:, :, before : self.filled] = new
        held = [room[:, :, : self.filled] for room in self.rooms]
        return held[0], held[1]

    def select(self, rows: Tensor) -> None:
        self.rooms = [room[rows] for room in self.rooms]


class Projections(nn.Linear):
    """Several linear maps of one input as one matrix product. The initial values of each map are drawn on their own."""

    def __init__(self, width: int, inner: int, parts: int) -> None:
        super().__init__(width, parts * inner)
        self.starts = {"weight": Kind("map", parts), "bias": MAP_BIAS}


class ScoredAttention(nn.Module):
    def __init__(self, width: int, heads: int, key_width: int, rate: float, gate: nn.Module) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = rate
        self.scale = 1 / math.sqrt(key_width)
        self.gate = gate
        self.watched: list[Tensor] | None = None  # a list to record masked scores before and after the gate
        self.output = nn.Linear(heads * key_width, width)

    def attend(
        self, query: Tensor, keys_values: KeysValues, mask: Tensor, earlier: Earlier, first_query: int
    ) -> Tensor:
        """Return the output (B, Q, D) for query (B, H, Q, d), whose first position is first_query.

        mask is 0 where a key may be seen and minus infinity elsewhere; it broadcasts to (B, H, Q, K).
        """
        keys, values = keys_values
        scores = (query * self.scale) @ keys.transpose(-1, -2)
        seen = self.gate(scores, earlier, mask, first_query)
        earlier.append(scores)
        if self.watched is not None:
            self.watched += [scores + mask, seen + mask]
        heads = dropout((seen + mask).softmax(dim=-1), self.dropout, self.training) @ values
        return self.output(heads.transpose(1, 2).flatten(2))

    def split(self, projected: Tensor, parts: int) -> Tensor:  # (B, T, parts * H * d) -> (parts, B, H, T, d)
        batch, length, _ = projected.shape
        return projected.view(batch, length, parts, self.heads, -1).permute(2, 0, 3, 1, 4)


class SelfAttention(ScoredAttention):
    def __init__(self, width: int, heads: int, key_width: int, rate: float, gate: nn.Module) -> None:
        super().__init__(width, heads, key_width, rate, gate)
        self.query_key_value = Projections(width, heads * key_width, parts=3)

    def forward(self, x: Tensor, mask: Tensor, earlier: Earlier, past: Past | None = None) -> Tensor:
        query, keys, values = self.split(self.query_key_value(x), 3)
        if past is not None:
            keys, values = past.extended(keys, values)
        return self.attend(query, (keys, values), mask, earlier, first_query=keys.shape[2] - query.shape[2])


class CrossAttention(ScoredAttention):
    def __init__(self, width: int, heads: int, key_width: int, rate: float, gate: nn.Module) -> None:
        super().__init__(width, heads, key_width, rate, gate)
        self.query = Projections(width, heads * key_width, parts=1)
        self.key_value = Projections(width, heads * key_width, parts=2)

    def keys_values(self, encoded: Tensor) -> KeysValues:
        keys, values = self.split(self.key_value(encoded), 2)
        return keys, values

    def forward(
        self, x: Tensor, keys_values: KeysValues, mask: Tensor, earlier: Earlier, first_query: int = 0
    ) -> Tensor:
        (query,) = self.split(self.query(x), 1)
        return self.attend(query, keys_values, mask, earlier, first_query)
