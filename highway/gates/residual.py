"""Residual gates of Highway Transformer (sections 3.1-3.3 and 4.4): (x, f(x), reads) -> sum.

A sublayer f of a block ends in `gate(x, f(x), reads)`; post-norm normalises that sum, pre-norm does not. The maps of a
gate, W1 and W2, read the third argument: the stream x itself (`gate.reads=stream`, every row of the papers) or, with
pre-norm, the normalised x that f reads (`gate.reads=normalised`).

    none         x + f(x)
    sdu          x + f(x) + psi(x W1 + b1) * (x W2 + b2)                  Eqs. 21-24
    sdu_conv     the same with causal depthwise convolutions              section 4.4
    highway      (1 - T) * x + T * (x W2 + b2) + f(x)                     Eqs. 26-29
    gated_mhdpa  x + (1 - T) * f(x) + T * (x W2 + b2)                     Eqs. 30-31
                 with T = sigmoid(x W1 + b1) in the last two

psi is sigmoid or tanh in the paper; `identity` makes the unit bilinear, and `one` linear: there is no W1.
f(x) comes with its dropout, which does not apply to the gate. With `gate.inside_dropout` one mask drops f and the unit
of an SDU: x + drop(f(x) + psi(...) * (x W2 + b2)). A gate that reads this option returns its unit by `unit(reads)`.

`transform_gate` holds W1 and b1, `transform` holds W2 and b2; both biases start at zero (Fig. 13).
Every gate is built from (width, options).
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.cards.gates import GateOptions
from highway.describe import MAP, ZERO
from highway.gates.gate import Gate

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "identity": lambda opening: opening,
}


class Map(nn.Linear):
    starts = {"weight": MAP, "bias": ZERO}


class CausalDepthwise(nn.Conv1d):
    """A causal depthwise convolution: position t reads x[t - kernel + 1 ... t], with zeros before the start."""

    starts = {"weight": MAP, "bias": ZERO}

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__(width, width, kernel, groups=width)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, T, D)
        padded = F.pad(x.transpose(1, 2), (self.kernel_size[0] - 1, 0))
        return super().forward(padded).transpose(1, 2)


class Sum(Gate):
    def __init__(self, width: int, options: GateOptions) -> None:
        super().__init__()

    def forward(self, x: Tensor, fx: Tensor, reads: Tensor) -> Tensor:  # (B, T, D) each
        return x + fx


class TwoMaps(Gate):
    """A gate with two maps: the transform gate W1, b1 and the transform W2, b2."""

    transform_gate: Any  # None if psi is one

    def __init__(self, width: int, options: GateOptions) -> None:
        super().__init__()
        self.transform_gate = self.map(width, options)
        self.transform = self.map(width, options)

    def map(self, width: int, options: GateOptions) -> nn.Module:
        """Build one of the two maps."""
        return Map(width, width)

    def probes(self) -> dict[str, Tensor]:
        return {} if self.transform_gate is None else {"gate_biases": self.transform_gate.bias}


class SelfDependencyUnit(TwoMaps):
    def __init__(self, width: int, options: GateOptions) -> None:
        super().__init__(width, options)
        if options.activation == "one":
            self.transform_gate = None
        else:
            self.psi = ACTIVATIONS[options.activation]

    def unit(self, reads: Tensor) -> Tensor:  # (B, T, D) -> (B, T, D)
        """Return psi(reads W1 + b1) * (reads W2 + b2)."""
        if self.transform_gate is None:
            return self.transform(reads)
        return self.psi(self.transform_gate(reads)) * self.transform(reads)

    def forward(self, x: Tensor, fx: Tensor, reads: Tensor) -> Tensor:
        return x + fx + self.unit(reads)


class ConvolutionalUnit(SelfDependencyUnit):
    def map(self, width: int, options: GateOptions) -> nn.Module:
        return CausalDepthwise(width, options.kernel)


class HighwayGate(TwoMaps):
    def forward(self, x: Tensor, fx: Tensor, reads: Tensor) -> Tensor:
        transform_gate = torch.sigmoid(self.transform_gate(reads))
        return (1 - transform_gate) * x + transform_gate * self.transform(reads) + fx


class GatedMHDPA(TwoMaps):
    def forward(self, x: Tensor, fx: Tensor, reads: Tensor) -> Tensor:
        transform_gate = torch.sigmoid(self.transform_gate(reads))
        return x + (1 - transform_gate) * fx + transform_gate * self.transform(reads)
