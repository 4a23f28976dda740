"""Ends of a model that reads values: pixels of an image, of which it says what it shows, or keys of a piano that are
down at a step, of which it says how likely each is at the next.

x = W v[t] + b  ->  backbone  ->  V features + c          a softmax of that at the last pixel, or a sigmoid for each key
"""

from typing import Any

from torch import Tensor, nn

from highway.config.datasets import CLASSES, KEYS
from highway.config.experiment import Experiment
from highway.models.ends import Ends


class Values(Ends):
    """Without W and b where the backbone reads vectors of just so many values: then they go in as they are."""

    values: int  # at a position
    outputs: int

    def __init__(self, experiment: Experiment, backbone: nn.Module) -> None:
        super().__init__()
        model = experiment.model
        self.input = nn.Identity() if self.values == model.width_in else nn.Linear(self.values, model.width_in)
        self.backbone = backbone
        self.output = nn.Linear(model.width_out, self.outputs)

    def forward(self, values: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """values (B, T, V) -> features (B, T, D)"""
        return self.backbone(self.input(values), state)

    def logits(self, features: Tensor) -> Tensor:  # (..., D) -> (..., outputs)
        return self.output(features)


class Pixels(Values):
    values, outputs = 1, CLASSES


class Keys(Values):
    values, outputs = KEYS, KEYS
