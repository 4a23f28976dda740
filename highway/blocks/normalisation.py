"""Layer normalisation in the two forms that the papers' code uses.

    LN(x) = gain * (x - mean) / (deviation + 1e-6) + bias

R-Transformer's code uses the unbiased standard deviation (divisor d - 1, for width d), torch the biased one (divisor
d). The unbiased form is the biased one with its gain scaled by sqrt((d - 1) / d), so one library kernel computes both.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.describe import GAIN, ZERO

EPSILON = 1e-12  # inside the root: the square of the 1e-6 that R-Transformer's code adds outside it


class LayerNorm(nn.Module):
    starts = {"weight": GAIN, "bias": ZERO}

    def __init__(self, width: int, deviation: str = "unbiased", epsilon: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.scale = math.sqrt((width - 1) / width) if deviation == "unbiased" else 1.0
        self.epsilon = EPSILON if deviation == "unbiased" else epsilon

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, T, D)
        weight = self.weight if self.scale == 1.0 else self.weight * self.scale
        return F.layer_norm(x, weight.shape, weight, self.bias, self.epsilon)
