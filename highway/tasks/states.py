"""Change and join the states that recurrent models carry: None, a tensor, or tensors in tuples and lists."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


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
    return [state] if isinstance(state, Tensor) else [tensor for part in state for tensor in flattened(part)]
