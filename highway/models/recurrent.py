"""The recurrent networks of torch.nn, which are baselines in R-Transformer's tables.

    RNN    s = tanh(Wx + b + Uh + c)
    GRU    r, z = sigmoid(Wx + b + Uh + c)      n = tanh(Vx + d + r (Qh + e))      s = (1 - z) n + z h
    LSTM   i, f, o = sigmoid(Wx + b + Uh + c)   g = tanh(the same)                 C' = f C + i g,   s = o tanh C'

    h' = gate(h, s), which is s without a state gate

Layers are stacked, with dropout on the output of each. Without a state gate, a layer is one call of torch's own kernel.
With a gate, it is a loop over steps.

Shapes: B lanes, T steps, I input width, D width.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from highway.blocks.layers import dropout
from highway.cards.models import Recurrent
from highway.config.experiment import Gating
from highway.describe import uniform
from highway.gates.gate import build_gate
from highway.gates.state import NewState
from highway.models.backbone import Backbone
from highway.models.initial import LikeTorch

KERNELS: dict[str, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
State = tuple[Tensor, ...]  # h, for an LSTM also C; (B, D) each
STEPS: dict[str, Callable[..., Any]] = {"rnn": torch.rnn_tanh_cell, "gru": torch.gru_cell, "lstm": torch.lstm_cell}


class Layer(nn.Module):
    def __init__(self, inputs: int, width: int, cell: str, state_gate: nn.Module) -> None:
        super().__init__()
        self.cell, self.width = cell, width
        self.kernel = KERNELS[cell](inputs, width, batch_first=True)
        names = [name for name, _ in self.kernel.named_parameters()]
        self.kernel.starts = dict.fromkeys(names, uniform(1 / math.sqrt(width)))
        self.gate = state_gate

    def forward(self, x: Tensor, state: State | None) -> tuple[Tensor, State]:
        """Return h at every step (B, T, D) and the state after the last step, from x (B, T, I)."""
        return self._by_kernel(x, state) if isinstance(self.gate, NewState) else self._stepwise(x, state)

    def _by_kernel(self, x: Tensor, state: State | None) -> tuple[Tensor, State]:
        if self.cell == "lstm" and x.is_cpu and torch.is_autocast_enabled("cpu"):
            with torch.autocast("cpu", enabled=False):  # fp32: some processors cannot train an LSTM in bf16
                return self._by_kernel(x.float(), state and tuple(part.float() for part in state))
        before = state and tuple(part[None] for part in state)  # torch's kernels take states (layers, B, D)
        features, after = self.kernel(x, before[0] if before and self.cell != "lstm" else before)
        return features, tuple(part[0] for part in (after if self.cell == "lstm" else (after,)))

    def _stepwise(self, x: Tensor, state: State | None) -> tuple[Tensor, State]:
        if state is None:
            zeros = x.new_zeros(x.shape[0], self.width)
            state = (zeros, zeros) if self.cell == "lstm" else (zeros,)
        weights = tuple(self.kernel.parameters())
        features = []
        for read in x.unbind(1):
            new = STEPS[self.cell](read, state if self.cell == "lstm" else state[0], *weights)
            h, *rest = new if self.cell == "lstm" else (new,)
            state = (self.gate(state[0], h, None), *rest)
            features.append(state[0])
        return torch.stack(features, 1), state


class RecurrentBackbone(Backbone):
    def __init__(self, model: Recurrent, gating: Gating) -> None:
        super().__init__()
        self.family = LikeTorch(model.init_embedding)
        self.dropout = model.dropout
        widths = [model.width_in] + [model.width] * model.layers
        options = gating.options.state
        self.layers = nn.ModuleList(
            Layer(inputs, model.width, model.cell, build_gate("state", options.name, model.width, options))
            for inputs in widths[:-1]
        )

    def forward(self, x: Tensor, state: tuple[State, ...] | None = None) -> tuple[Tensor, tuple[State, ...]]:
        """Return features (B, T, D) and each layer's state after x, from x (B, T, I) and each layer's state before."""
        states = []
        for number, layer in enumerate(self.layers):
            x, left = layer(x, None if state is None else state[number])
            x = dropout(x, self.dropout, self.training)
            states.append(left)
        return x, tuple(states)
