"""The interface of backbones that read one text: (x, state) -> (features, state), over vectors, without a task.

x and the features are (B, T, D): B lanes, T positions, D the model's width. Features at t depend on x up to t. The
state is None, a tensor, or nested tuples of tensors, each with lanes first; the next call on the same lanes continues
from it. `cut` says how the text is read, which includes the length of a memory and the distance at which positions are
clamped. It differs between training and evaluation, and highway/run/build.py sets it.
"""

from typing import Any

from torch import Tensor, nn

from highway.config.datasets import Cut
from highway.models.initial import Family


class Backbone(nn.Module):
    family: Family  # distributions of the initial values, also for the ends
    training_cut = evaluation_cut = Cut()

    @property
    def cut(self) -> Cut:
        return self.training_cut if self.training else self.evaluation_cut

    def forward(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        raise NotImplementedError
