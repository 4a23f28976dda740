"""Recurrent highway network (Zilly et al., 2017); with a state gate, Highway State Gating (Shoham and Permuter, 2018).

    s <- h t + s c        in each of `depth` micro-layers of a step, Eqs. 1-4 (highway/blocks/rhn_loop.py):
        h = tanh(W_H x + R_H s + b_H)      t = sigmoid(W_T x + R_T s + b_T)      c = 1 - t, or a third map's sigmoid
        W x only in the first micro-layer
    s[t] = gate(s[t-1], s), which is s without a state gate; Eqs. 5-6

Dropout is variational: a mask is drawn once for each training window and lane, and applies to all steps of the window.
It applies to what a matrix reads, not to the state that is carried. Layers are stacked, each with its own masks.

Shapes: B lanes, T steps, I input width, D width; maps is 2 (H, T), or 3 with C.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.blocks.layers import dropout
from highway.blocks.rhn_loop import Loop
from highway.cards.models import RHN
from highway.config.experiment import Gating
from highway.describe import MAP, MAP_BIAS, InitialValues, constant
from highway.gates.gate import build_gate
from highway.models.backbone import Backbone
from highway.models.initial import Uniform


class MicroLayer(nn.Module):
    """R (maps D, D) and b (maps D) of the maps H, T and, if uncoupled, C, stacked in this order."""

    def __init__(self, model: RHN) -> None:
        super().__init__()
        width, maps = model.width, 2 if model.coupled else 3
        self.weight = nn.Parameter(torch.empty(maps * width, width))
        self.starts: dict[str, InitialValues] = {"weight": MAP}
        starts: list[InitialValues] = [MAP_BIAS, constant(model.bias), constant(-model.bias)]
        for name, start in zip("htc"[:maps], starts, strict=False):
            self.register_parameter(f"bias_{name}", nn.Parameter(torch.empty(width)))
            self.starts[f"bias_{name}"] = start

    @property
    def bias(self) -> Tensor:
        return torch.cat([getattr(self, name) for name in self.starts if name != "weight"])


class Layer(nn.Module):
    def __init__(self, inputs: int, model: RHN, state_gate: nn.Module) -> None:
        super().__init__()
        maps = 2 if model.coupled else 3
        self.input = nn.Linear(inputs, maps * model.width, bias=False)
        self.micro = nn.ModuleList(MicroLayer(model) for _ in range(model.depth))
        self.gate = state_gate
        self.loop = Loop(state_gate, model.depth)
        self.dropout_input, self.dropout_state = model.dropout_input, model.dropout_state

    def forward(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the states (T, B, D) and the last of them, from x (T, B, I) and state (B, D); None is zero."""
        micro: list[MicroLayer] = list(self.micro)  # type: ignore[arg-type]
        state = x.new_zeros(x.shape[1], micro[0].weight.shape[1]) if state is None else state
        x = masked(x, mask(x[0], self.dropout_input, self.training))
        biases = [layer.bias for layer in micro]
        reads = F.linear(x, self.input.weight).to(state.dtype) + biases[0]
        drop = mask(state, self.dropout_state, self.training)
        states = self.loop(reads, state, drop, [layer.weight for layer in micro], biases[1:])
        return states, states[-1]


class RHNBackbone(Backbone):
    def __init__(self, model: RHN, gating: Gating) -> None:
        super().__init__()
        self.family = Uniform(model.init)
        self.dropout_output = model.dropout_output
        options = gating.options.state
        self.layers = nn.ModuleList(
            Layer(inputs, model, build_gate("state", options.name, model.width, options))
            for inputs in [model.width_in] + [model.width] * (model.layers - 1)
        )

    def forward(self, x: Tensor, state: tuple[Tensor, ...] | None = None) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return features (B, T, D) and each layer's state after x, from x (B, T, I) and each layer's state before."""
        x = x.transpose(0, 1)
        states = []
        for number, layer in enumerate(self.layers):
            x, left = layer(x, None if state is None else state[number])
            states.append(left)
        return masked(x, mask(x[0], self.dropout_output, self.training)).transpose(0, 1), tuple(states)


def mask(like: Tensor, probability: float, training: bool) -> Tensor | None:
    """Draw a dropout mask like `like` (B, D), of zeros and 1 / (1 - probability); None without dropout."""
    return dropout(torch.ones_like(like), probability, True) if training and probability else None


def masked(x: Tensor, by: Tensor | None) -> Tensor:
    return x if by is None else x * by
