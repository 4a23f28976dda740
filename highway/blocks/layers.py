"""Parts that most models share: dropout, layer norm, feed-forward, a sublayer with its gate, codes of positions."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.config.experiment import Gating
from highway.describe import GAIN, ZERO
from highway.gates.gate import build_gate

LEVELS = 1 << 16  # number of values of a 16-bit draw
LOWEST = -(1 << 63)
EPSILON = 1e-12  # inside the root: the square of the 1e-6 that R-Transformer's code adds outside it


def dropout(x: Tensor, probability: float, training: bool) -> Tensor:
    """Drop components of x, with random numbers that are cheap on a CPU.

    torch's CPU dropout makes one 24-bit draw per element, which is the largest single cost of training a small
    Transformer. Here one 64-bit draw serves four elements: an element is dropped when its 16 bits fall below
    p * 65536. The probability is p to within 1/131072. Kept values are scaled by the exact inverse of the probability
    that was used, so the expectation is exact. On CUDA, and in compiled graphs, torch's own kernel is best.
    """
    if not training or probability == 0.0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, probability)
    dropped = round(probability * LEVELS)
    integers = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(LOWEST, None)
    draws = integers.view(torch.int16)[: x.numel()].view(x.shape)  # uniform on -32768 ... 32767
    keep = torch.ge(draws, dropped - LEVELS // 2, out=torch.empty(x.shape, dtype=x.dtype))  # 0 or 1, in one pass
    return x * keep.mul_(LEVELS / (LEVELS - dropped))


class LayerNorm(nn.Module):
    """Layer normalisation, gain * (x - mean) / deviation + bias, in the two forms that the papers' code uses.

    R-Transformer's code takes the unbiased standard deviation (divisor d - 1, for width d) plus 1e-6; torch takes the
    biased one (divisor d) with an epsilon inside the root. The unbiased form is the biased one with its gain scaled by
    sqrt((d - 1) / d), so one library kernel computes both.
    """

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


class FeedForward(nn.Module):
    """The position-wise feed-forward layer, Eq. 8: FF(ReLU(FF(u)))."""

    def __init__(self, width: int, inner: int, dropout_rate: float) -> None:
        super().__init__()
        self.inner = nn.Linear(width, inner)
        self.outer = nn.Linear(inner, width)
        self.dropout = dropout_rate

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, T, D)
        hidden = F.relu(self.inner(x))
        return self.outer(dropout(hidden, self.dropout, self.training))


class Sublayer(nn.Module):
    """A function f of a block with its norm, its dropout and its gate.

        post-norm   LN(gate(x, f(x)))        pre-norm   gate(x, f(LN x))

    Dropout applies to the output of f, and to the gate only with `gate.inside_dropout`: x + drop(f + unit). An
    attention with memory reads the memory followed by x, and pre-norm normalises both.

    layer: number of the layer, from 1. location: name of its gate's location, such as attention; None without a gate.
    norm_place: pre or post.
    """

    def __init__(
        self,
        function: nn.Module,
        gating: Gating,
        layer: int,
        location: str | None,
        width: int,
        norm: LayerNorm,
        norm_place: str,
        rate: float,
    ) -> None:
        super().__init__()
        self.function: Any = function
        gate = gating.residual(layer, location)
        self.gate: Any = build_gate("residual", gate, width, gating.options)
        self.inside_dropout = gating.options.inside_dropout and gate != "none"
        self.norm = norm
        self.dropout = rate
        self.post_norm = norm_place == "post"
        self.reads_normalised = gating.options.reads == "normalised"

    def forward(self, x: Tensor, memory: Tensor | None = None, *rest: Any) -> Tensor:
        """Apply the sublayer to x (B, T, D), with the memory (B, M, D) if there is one -> (B, T, D)."""
        reads = x if memory is None else torch.cat((memory, x), dim=1)
        if not self.post_norm:
            reads = self.norm(reads)
        fx = self.function(reads, *rest)
        gate_reads = reads[:, -x.shape[1] :] if self.reads_normalised else x
        if self.inside_dropout:
            summed = x + dropout(fx + self.gate.unit(gate_reads), self.dropout, self.training)
        else:
            summed = self.gate(x, dropout(fx, self.dropout, self.training), gate_reads)
        return self.norm(summed) if self.post_norm else summed


# Sinusoidal codes (Vaswani et al., 2017) of positions, Eqs. 4-5 of Highway Transformer, and of distances, Eqs. 11, 13


def sinusoids(length: int, width: int) -> Tensor:
    """Return PE (length, width): PE[pos, 2i] = sin(pos / 10000^(2i/d)), PE[pos, 2i+1] = cos(the same)."""
    angle = _angles(length, width)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1).float()


def distance_codes(length: int, width: int) -> Tensor:
    """Return the values of `sinusoids`, (length, width), with all sines before all cosines, as in Transformer-XL."""
    angle = _angles(length, width)
    return torch.cat((angle.sin(), angle.cos()), dim=-1).float()


def _angles(length: int, width: int) -> Tensor:
    position = torch.arange(length, dtype=torch.float64)[:, None]
    return position * 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
