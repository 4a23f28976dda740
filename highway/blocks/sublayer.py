"""One sublayer f of a block with its norm, its dropout and its gate.

    post-norm   LN(gate(x, f(x)))        pre-norm   gate(x, f(LN x))

Dropout applies to the output of f, never to the gate. An attention with memory reads the memory followed by x, and
pre-norm normalises both. An f that carries a state takes it as a further argument and returns (output, state).
"""

from typing import Any

import torch
from torch import Tensor, nn

from highway.blocks.dropout import dropout
from highway.blocks.normalisation import LayerNorm
from highway.config.experiment import Gating
from highway.gates.gate import gate


class Sublayer(nn.Module):
    """A function f with its gate, norm and dropout.

    layer: number of the layer, from 1. place: its location there, such as attention; None if it has no gate.
    norm_place: pre or post.
    """

    def __init__(
        self,
        function: nn.Module,
        gating: Gating,
        layer: int,
        place: str | None,
        width: int,
        norm: LayerNorm,
        norm_place: str,
        rate: float,
    ) -> None:
        super().__init__()
        self.function: Any = function
        self.gate = gate("residual", gating.residual(layer, place), width, gating.options)
        self.norm = norm
        self.dropout = rate
        self.post_norm = norm_place == "post"
        self.reads_normalised = gating.options.reads == "normalised"

    def forward(self, x: Tensor, memory: Tensor | None = None, *more: Any) -> Any:
        """Apply the sublayer to x (B, T, D), with the memory (B, M, D) if there is one -> (B, T, D).

        If f returns a state beside its output, return (the result, the state).
        """
        reads = x if memory is None else torch.cat((memory, x), dim=1)
        if not self.post_norm:
            reads = self.norm(reads)
        fx = self.function(reads, *more)
        if isinstance(fx, tuple):
            output, state = fx
            return self._ended(x, output, reads), state
        return self._ended(x, fx, reads)

    def _ended(self, x: Tensor, fx: Tensor, reads: Tensor) -> Tensor:
        """Add f(x) to x through the gate; post-norm normalises the sum."""
        fx = dropout(fx, self.dropout, self.training)
        if self.post_norm:
            return self.norm(self.gate(x, fx, x))
        return self.gate(x, fx, reads[:, -x.shape[1] :] if self.reads_normalised else x)
