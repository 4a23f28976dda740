"""Ends of a model that reads an image pixel by pixel and says what it shows.

x = W p[t] + b  ->  backbone  ->  softmax(V features[T] + c)
"""

from typing import Any

from torch import Tensor, nn

from highway.config.datasets import CLASSES
from highway.config.experiment import Experiment
from highway.models.ends import Ends, reading


class Pixels(Ends):
    def __init__(self, experiment: Experiment, backbone: nn.Module) -> None:
        super().__init__()
        self.input = reading(1, experiment.model.width_in)
        self.backbone = backbone
        self.output = nn.Linear(experiment.model.width_out, CLASSES)

    def forward(self, pixels: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """pixels (B, T, 1) -> features (B, T, D)"""
        return self.backbone(self.input(pixels), state)

    def logits(self, features: Tensor) -> Tensor:  # (..., D) -> (..., classes)
        return self.output(features)
