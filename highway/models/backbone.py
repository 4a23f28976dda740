"""The interface of backbones that read one text: (x, state) -> (features, state), over vectors, without a task.

x and the features are (B, T, D): B lanes, T positions, D the model's width. Features at t depend on x up to t. The
state is None, a tensor, or nested tuples of tensors, each with lanes first; the next call on the same lanes continues
from it. A backbone with a memory (`remembers=Remembers.MEMORY` on its card) gets a third argument, the `Reach` of the
text: the length of the memory, and the distance at which positions are clamped. Evaluation may have another reach.
"""

from typing import Any

from torch import Tensor, nn

from highway.models.initial import Family


class Backbone(nn.Module):
    """The base class of backbones that read one text."""

    family: Family  # distributions of the initial values, also for the layers around it

    def forward(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        raise NotImplementedError
