"""State gates: (previous, new, drop) -> state, at every step of a recurrence.

`new` is the state that the recurrence computes from `previous`; `drop` is its dropout mask for the window, or None. On
an LSTM the gate acts on h, not on c. Each row of a gate's output depends only on the same row of its inputs, so one
call can compute many steps.

    none    new
    hsg     g * previous + (1 - g) * new        g = sigmoid(W_R previous + W_F new + b)        HSG, Eqs. 5-6
            the dropout of the recurrence applies to what the two maps read, not to the state that is carried
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.cards.gates import StateGateOptions
from highway.describe import MAP, constant
from highway.gates.gate import Gate


class NewState(Gate):
    def __init__(self, width: int, options: StateGateOptions) -> None:
        super().__init__()

    def forward(self, previous: Tensor, new: Tensor, drop: Tensor | None) -> Tensor:  # (..., D) each
        return new


class HighwayStateGate(Gate):
    def __init__(self, width: int, options: StateGateOptions) -> None:
        super().__init__()
        self.of_previous = nn.Parameter(torch.empty(width, width))
        self.of_new = nn.Parameter(torch.empty(width, width))
        self.bias = nn.Parameter(torch.empty(width))
        self.starts = {"of_previous": MAP, "of_new": MAP, "bias": constant(options.bias)}
        self.dropped = options.dropped

    def carried(self, previous: Tensor, new: Tensor, drop: Tensor | None) -> Tensor:
        """Return g (..., D), the fraction of each component of `previous` that is kept."""
        if drop is not None and self.dropped:
            previous, new = previous * drop, new * drop
        return torch.sigmoid(F.linear(previous, self.of_previous) + F.linear(new, self.of_new, self.bias))

    def forward(self, previous: Tensor, new: Tensor, drop: Tensor | None) -> Tensor:  # (..., D) each
        return torch.lerp(new, previous, self.carried(previous, new, drop).to(new.dtype))
