"""The interface of backbones that read one text: (x, state) -> (features, state), over vectors, without a task.

x and the features are (B, T, D): B lanes, T positions, D the model's width. Features at t depend on x up to t. The
state is None, a tensor, or nested tuples of tensors, each with lanes first; the next call on the same lanes continues
from it. A backbone with a memory (`remembers=Remembers.MEMORY` on its card) gets a third argument, the `Context` of the
text: the length of the memory, and the distance at which positions are clamped. Evaluation may have another context.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from highway.models.initial import Family


class Backbone(nn.Module):
    """The base class of backbones that read one text."""

    family: Family  # distributions of the initial values, also for the layers around it

    def forward(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        raise NotImplementedError


def mapped(change: Callable[[Tensor], Tensor], state: Any) -> Any:
    """Apply a function to each tensor of a state, which is None, a tensor, or tensors in tuples and lists."""
    if state is None:
        return None
    if isinstance(state, Tensor):
        return change(state)
    return type(state)(mapped(change, part) for part in state)


def joined(states: list[Any]) -> Any:
    """Concatenate the states of groups of lanes into the state of all lanes; every tensor has lanes first."""
    if len(states) == 1 or states[0] is None:
        return states[0]
    tensors = iter([torch.cat(parts) for parts in zip(*map(flattened, states), strict=True)])
    return mapped(lambda _: next(tensors), states[0])


def flattened(state: Any) -> list[Tensor]:
    """List the tensors of a state."""
    if state is None:
        return []
    return [state] if isinstance(state, Tensor) else [tensor for part in state for tensor in flattened(part)]
