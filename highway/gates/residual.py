"""Residual gates of Highway Transformer (sections 3.1-3.3 and 4.4): (x, f(x), reads) -> sum.

A sublayer f of a block ends in `gate(x, f(x))`; post-norm normalises that sum, pre-norm leaves it.
T and psi(...) * (...) read the stream itself (`gate.reads=stream`, every table) or, with pre-norm, what
f reads (`gate.reads=normalised`): that is the third argument.

    none         x + f(x)
    sdu          x + f(x) + psi(x W1 + b1) * (x W2 + b2)                  Eqs. 21-24
    sdu_conv     the same with causal depthwise convolutions              section 4.4
    highway      (1 - T) * x + T * (x W2 + b2) + f(x)                     Eqs. 26-29
    gated_mhdpa  x + (1 - T) * f(x) + T * (x W2 + b2)                     Eqs. 30-31
                 with T = sigmoid(x W1 + b1) in the last two

`transform_gate` holds W1 and b1, `transform` holds W2 and b2; both biases start at zero (Fig. 13).
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"sigmoid": torch.sigmoid, "tanh": torch.tanh}


class ResidualGate(nn.Module):
    """Two maps of x: the transform gate W1, b1 and the transform W2, b2."""

    zero_biases = True  # read by highway.models.initial

    def __init__(self, width: int) -> None:
        super().__init__()
        self.transform_gate = nn.Linear(width, width)
        self.transform = nn.Linear(width, width)


class NoGate(nn.Module):
    def forward(self, x: Tensor, fx: Tensor, reads: Tensor) -> Tensor:
        return x + fx


class SelfDependencyUnit(ResidualGate):
    def __init__(self, width: int, activation: str) -> None:
        super().__init__(width)
        self.psi = ACTIVATIONS[activation]

    def forward(self, x: Tensor, fx: Tensor, reads: Tensor) -> Tensor:  # (B, T, D) each
        return x + fx + self.psi(self.transform_gate(reads)) * self.transform(reads)


class ConvolutionalUnit(SelfDependencyUnit):
    """Position t reads x[t - kernel + 1 ... t], with zeros before the start."""

    def __init__(self, width: int, activation: str, kernel: int) -> None:
        super().__init__(width, activation)
        self.transform_gate = CausalDepthwise(width, kernel)  # type: ignore[assignment]
        self.transform = CausalDepthwise(width, kernel)  # type: ignore[assignment]


class CausalDepthwise(nn.Conv1d):
    def __init__(self, width: int, kernel: int) -> None:
        super().__init__(width, width, kernel, groups=width)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, T, D)
        padded = F.pad(x.transpose(1, 2), (self.kernel_size[0] - 1, 0))
        return super().forward(padded).transpose(1, 2)


class HighwayGate(ResidualGate):
    def forward(self, x: Tensor, fx: Tensor, reads: Tensor) -> Tensor:
        transform_gate = torch.sigmoid(self.transform_gate(reads))
        return (1 - transform_gate) * x + transform_gate * self.transform(reads) + fx


class GatedMHDPA(ResidualGate):
    def forward(self, x: Tensor, fx: Tensor, reads: Tensor) -> Tensor:
        transform_gate = torch.sigmoid(self.transform_gate(reads))
        return x + (1 - transform_gate) * fx + transform_gate * self.transform(reads)


def residual_gate(name: str, width: int, activation: str, kernel: int) -> nn.Module:
    if name == "none":
        return NoGate()
    if name == "sdu":
        return SelfDependencyUnit(width, activation)
    if name == "sdu_conv":
        return ConvolutionalUnit(width, activation, kernel)
    return {"highway": HighwayGate, "gated_mhdpa": GatedMHDPA}[name](width)
