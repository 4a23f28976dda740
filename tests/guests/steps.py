"""A recurrent backbone of one layer, a GRU written out step by step.

z, r = sigmoid(W x[t] + U s[t-1] + b)        n = tanh(V x[t] + r * (Q s[t-1]) + c)
s[t] = gate(s[t-1], (1 - z) * n + z * s[t-1])
"""

import torch
from torch import Tensor, nn

from highway.cards.models import ModelCard, Options, Remembers
from highway.config.experiment import Gating
from highway.gates.gate import build_gate
from highway.keys.schema import number
from highway.models.backbone import Backbone
from highway.models.initial import LikeTorch


class Steps(Options):
    name: str = "steps"
    width: int = number(8, 1)


class StepsBackbone(Backbone):
    def __init__(self, model: Steps, gating: Gating) -> None:
        super().__init__()
        self.family = LikeTorch(0.1)
        self.reads = nn.Linear(model.width, 3 * model.width)
        self.recurs = nn.Linear(model.width, 3 * model.width, bias=False)
        self.gate = build_gate("state", gating.options.state.name, model.width, gating.options.state)

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        state = x.new_zeros(x.shape[0], x.shape[2]) if state is None else state
        features = []
        for read in self.reads(x).unbind(1):
            (z, r, n), (uz, ur, un) = read.chunk(3, -1), self.recurs(state).chunk(3, -1)
            z, r = torch.sigmoid(z + uz), torch.sigmoid(r + ur)
            new = (1 - z) * torch.tanh(n + r * un) + z * state
            state = self.gate(state, new, None)
            features.append(state)
        return torch.stack(features, 1), state


CARD = ModelCard(
    Steps,
    "tests.guests.steps:StepsBackbone",
    "A recurrent network that reads a text symbol by symbol.",
    locations={"state": ("h",)},
    remembers=Remembers.STATE,
)
