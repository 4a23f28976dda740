"""State gates: (previous, new, drop) -> state, at every step of a recurrence.

`new` is what the recurrence makes of `previous`, `drop` its mask of the window, or None. On an LSTM it gates h, not c.

    none    new
"""

from typing import Any

from torch import Tensor

from highway.gates.gate import Gate


class NewState(Gate):
    def __init__(self, width: int, options: Any) -> None:
        super().__init__()

    def forward(self, previous: Tensor, new: Tensor, drop: Tensor | None) -> Tensor:  # (B, D) each
        return new
