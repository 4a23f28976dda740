"""LayerScale (Touvron et al., 2021): x + a * f(x), with a number a for each component."""

from typing import Any

import torch
from torch import Tensor, nn

from highway.describe import constant
from highway.gates.gate import Gate


class LayerScale(Gate):
    starts = {"a": constant(0.1)}

    def __init__(self, width: int, options: Any) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.empty(width))

    def forward(self, x: Tensor, fx: Tensor, reads: Tensor) -> Tensor:  # (B, T, D) each
        return x + self.a * fx
