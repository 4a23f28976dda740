"""One sublayer f of a block with its norm, its dropout and its gate.

    post-norm   LN(gate(x, f(x)))        pre-norm   gate(x, f(LN x))

Dropout falls on the output of f, never on the gate. An attention with memory reads the memory before x as well, and
pre-norm normalises both.
"""

from typing import Any

import torch
from torch import Tensor, nn

from highway.blocks.dropout import dropout
from highway.blocks.normalisation import LayerNorm
from highway.config.schema import Gate, Model
from highway.gates.residual import residual_gate


class Sublayer(nn.Module):
    def __init__(
        self, function: nn.Module, model: Model, gate: Gate, gated: bool, norm: LayerNorm, dropout_rate: float
    ) -> None:
        super().__init__()
        kind = gate.residual if gated else "none"
        self.function: Any = function
        self.gate = residual_gate(kind, model.width, gate.activation, gate.kernel)
        self.norm = norm
        self.dropout = dropout_rate
        self.post_norm = model.norm == "post"
        self.reads_normalised = gate.reads == "normalised"

    def forward(self, x: Tensor, memory: Tensor | None = None, *more: Any) -> Tensor:
        """x (B, T, D), memory (B, M, D) -> (B, T, D)."""
        reads = x if memory is None else torch.cat((memory, x), dim=1)
        if self.post_norm:
            fx = dropout(self.function(reads, *more), self.dropout, self.training)
            return self.norm(self.gate(x, fx, x))
        normalised = self.norm(reads)
        fx = dropout(self.function(normalised, *more), self.dropout, self.training)
        return self.gate(x, fx, normalised[:, -x.shape[1] :] if self.reads_normalised else x)
