"""What backbones of one text are: (x, state) -> (features, state), over vectors of the model's width, and no task.

x is (B, T, D) and so are the features, those at t from x up to t. State is None, a tensor, or tensors in tuples, each
with lanes first: what the next call on the same lanes goes on from. How long a memory is and at which distance it is
clamped belongs to how the text is read: `cut`, which differs between training and evaluation and is set from outside
(highway/run/build.py).
"""

from typing import Any

from torch import Tensor, nn

from highway.config.datasets import Cut
from highway.models.initial import Family


class Backbone(nn.Module):
    family: Family  # what its parameters and those of its ends are drawn from
    training_cut = evaluation_cut = Cut()

    @property
    def cut(self) -> Cut:
        return self.training_cut if self.training else self.evaluation_cut

    def forward(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        raise NotImplementedError
