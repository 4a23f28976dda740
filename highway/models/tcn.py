"""Temporal convolutional network (Bai et al., 2018), section 3: a baseline in R-Transformer's tables.

    block       O = ReLU(x + f(x)),   f = drop ReLU conv drop ReLU conv       x through a 1 x 1 map where widths differ
    conv        y[t] = b + sum_k W_k x[t - k dilation]                        zero before the start
    W           g v / |v|, a gain for each output channel                     weight normalisation

Dilation doubles from block to block. The released code draws the weights of convolutions from N(0, 0.01), but weight
normalisation then recomputes them from g and v, so they start with torch's defaults; 1 x 1 maps keep N(0, 0.01).

Shapes: B rows, T positions, I input channels, O output channels.
"""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.blocks.layers import dropout
from highway.cards.models import TCN
from highway.config.experiment import Gating
from highway.describe import MAP, MAP_BIAS, normal
from highway.models.backbone import Backbone
from highway.models.initial import LikeTorch


class CausalConvolution(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, kernel))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.gain = nn.Parameter(torch.empty(outputs))
        self.starts = {"weight": MAP, "bias": MAP_BIAS, "gain": lambda gain, _: gain.copy_(self.norms)}
        self.dilation, self.before = dilation, (kernel - 1) * dilation

    def forward(self, x: Tensor) -> Tensor:  # (B, I, T) -> (B, O, T)
        weight = self.weight * (self.gain / self.norms)[:, None, None]
        return F.conv1d(F.pad(x, (self.before, 0)), weight, self.bias, dilation=self.dilation)

    @property
    def norms(self) -> Tensor:  # (O,)
        return self.weight.flatten(1).norm(dim=1)


class ResidualBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int, rate: float) -> None:
        super().__init__()
        self.first = CausalConvolution(inputs, outputs, kernel, dilation)
        self.second = CausalConvolution(outputs, outputs, kernel, dilation)
        self.shortcut = Shortcut(inputs, outputs) if inputs != outputs else nn.Identity()
        self.dropout = rate

    def forward(self, x: Tensor) -> Tensor:  # (B, I, T) -> (B, O, T)
        hidden = x
        for convolution in (self.first, self.second):
            hidden = dropout(F.relu(convolution(hidden)), self.dropout, self.training)
        return F.relu(hidden + self.shortcut(x))


class Shortcut(nn.Conv1d):
    starts = {"weight": normal(0.0, 0.01), "bias": MAP_BIAS}

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 1)


class TCNBackbone(Backbone):
    def __init__(self, model: TCN, gating: Gating) -> None:
        super().__init__()
        self.family = LikeTorch(model.init_embedding, model.init_embedding_as)
        widths = [model.width_in] + [model.width] * (model.layers - 1) + [model.width_out]
        self.blocks = nn.ModuleList(
            ResidualBlock(inputs, outputs, model.kernel, 2**level, model.dropout)
            for level, (inputs, outputs) in enumerate(pairwise(widths))
        )

    def forward(self, x: Tensor, state: None = None) -> tuple[Tensor, None]:
        """Compute features (B, T, O) from x (B, T, I); a TCN carries no state."""
        channels = x.transpose(1, 2)
        for block in self.blocks:
            channels = block(channels)
        return channels.transpose(1, 2), None
