"""A state gate: s = previous + sigmoid(a) * (new - previous), where a is a single number that starts at 2."""

from typing import Any

import torch
from torch import Tensor, nn

from highway.cards.gates import GateCard
from highway.describe import constant
from highway.gates.gate import Gate


class Leaky(Gate):
    starts = {"leak": constant(2.0)}

    def __init__(self, width: int, options: Any) -> None:
        super().__init__()
        self.leak = nn.Parameter(torch.empty(1))

    def forward(self, previous: Tensor, new: Tensor, drop: Tensor | None) -> Tensor:
        return previous + torch.sigmoid(self.leak) * (new - previous)

    def probes(self) -> dict[str, Tensor]:
        return {"leaks": self.leak}


CARD = GateCard("tests.guests.leaky:Leaky", "s[t] = previous + sigmoid(a) * (new - previous)", "A leak.")
