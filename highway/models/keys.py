"""Ends of a model of music: which keys are down at a step, and how likely each is at the next.

x = W k[t] + b  ->  backbone  ->  sigmoid(V features + c)
"""

from typing import Any

from torch import Tensor, nn

from highway.config.datasets import KEYS
from highway.config.experiment import Experiment
from highway.models.ends import Ends, reading


class Keys(Ends):
    def __init__(self, experiment: Experiment, backbone: nn.Module) -> None:
        super().__init__()
        self.input = reading(KEYS, experiment.model.width_in)
        self.backbone = backbone
        self.output = nn.Linear(experiment.model.width_out, KEYS)

    def forward(self, keys: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """keys (B, T, 88) -> features (B, T, D)"""
        return self.backbone(self.input(keys), state)

    def logits(self, features: Tensor) -> Tensor:  # (..., D) -> (..., 88)
        return self.output(features)
