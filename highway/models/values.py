"""Ends of a model that reads values: pixels of an image, or the piano keys that are down at each step.

From pixels it predicts the class of the image; from keys, the probability of each key at the next step.

x = W v[t] + b  ->  backbone  ->  V features + c          then a softmax at the last pixel, or a sigmoid for each key
"""

from typing import Any

from torch import Tensor, nn

from highway.config.datasets import CLASSES, KEYS
from highway.config.experiment import Experiment


class Values(nn.Module):
    """The base of ends that read values. W and b are left out if the backbone's input has as many components."""

    values: int  # number of values at a position
    outputs: int

    def __init__(self, experiment: Experiment, backbone: nn.Module) -> None:
        super().__init__()
        model = experiment.model
        self.input = nn.Identity() if self.values == model.width_in else nn.Linear(self.values, model.width_in)
        self.backbone = backbone
        self.output = nn.Linear(model.width_out, self.outputs)

    def forward(self, values: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Return features (B, T, D) and the new state, from values (B, T, V), V of them at each position."""
        return self.backbone(self.input(values), state)

    def logits(self, features: Tensor) -> Tensor:  # (..., D) -> (..., outputs)
        return self.output(features)


class Pixels(Values):
    values, outputs = 1, CLASSES


class Keys(Values):
    values, outputs = KEYS, KEYS
