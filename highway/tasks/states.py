"""States that are carried; and what a trained recurrent model does with its own, for figures: how open its gates are,
how far gradients reach."""

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.describe import gates_of

STEPS = 80  # of the text, drawn at random, at which gates are looked at
BINS = 100  # of their values, from 0 to 1
REACH = 100  # steps back to which gradients are followed
LANES, WARM_UP, PLACES = 20, 35, 3  # gradients: lanes of text, steps before the first place, places in each lane


@torch.no_grad()
def gate_values(model: Any, stream: Tensor) -> dict[str, Tensor]:
    """By state gate: how many of its values at STEPS random steps of a text are in each of BINS parts of 0..1."""
    gates = {place: gate for place, gate in gates_of(model).items() if hasattr(gate, "carried")}
    if not gates:
        return {}
    tokens = stream[: 20 * STEPS].long()[None]
    chosen = set(random.Random(0).sample(range(tokens.shape[1]), min(STEPS, tokens.shape[1])))
    found: dict[str, list[Tensor]] = {}
    hooks = []
    for place, gate in gates.items():
        hooks.append(gate.register_forward_hook(_look(chosen, found.setdefault(place, []))))
    model(tokens.to(next(model.parameters()).device))
    for hook in hooks:
        hook.remove()
    return {
        place: torch.histc(torch.cat([value.flatten() for value in values]).float().cpu(), BINS, 0, 1)
        for place, values in found.items()
    }


def _look(chosen: set[int], values: list[Tensor]) -> Any:
    """A hook that keeps what a gate carries on at the chosen ones of its calls, which are a step each."""
    calls = iter(range(1 << 62))

    def hook(gate: nn.Module, given: tuple[Any, ...], _: Tensor) -> None:
        if next(calls) in chosen:
            values.append(gate.carried(*given))  # type: ignore[operator]

    return hook


def gradient_norms(model: Any, stream: Tensor) -> Tensor:
    """The norm of d loss[t] / d s[t-k] by k, of the last layer's state, the mean over lanes and places of a text."""
    lanes = min(LANES, max(len(stream) // (WARM_UP + PLACES * (REACH + 1) + 1), 1))
    text = stream[: len(stream) // lanes * lanes].view(lanes, -1).long().to(next(model.parameters()).device)
    reach = min(REACH, (text.shape[1] - 1 - WARM_UP) // PLACES - 1)
    with torch.no_grad():
        _, state = model(text[:, :WARM_UP], None)
    norms = torch.zeros(reach + 1)
    at = WARM_UP
    for _ in range(PLACES):
        states: list[Tensor] = []
        for _ in range(reach + 1):
            features, state = model(text[:, at : at + 1], state)
            states.append(_last_of(state))
            at += 1
        states[-1] = features  # from which the loss is: the state after the last step reaches nothing else
        loss = F.cross_entropy(model.logits(features[:, 0]), text[:, at], reduction="sum")
        gradients = torch.autograd.grad(loss, states)
        norms += torch.stack([one.flatten(1).norm(dim=1).mean() for one in reversed(gradients)]).cpu() / PLACES
        state = mapped(Tensor.detach, state)
    return norms


def _last_of(state: Any) -> Tensor:
    """Of a state, which is a tensor or one of these for each layer, that of the last; of an LSTM's (h, C), h."""
    last = state if isinstance(state, Tensor) else state[-1]
    return last if isinstance(last, Tensor) else last[0]


def mapped(change: Callable[[Tensor], Tensor], state: Any) -> Any:
    """A state (None, a tensor, or tensors in tuples and lists) with each tensor changed."""
    if state is None:
        return None
    if isinstance(state, Tensor):
        return change(state)
    return type(state)(mapped(change, part) for part in state)


def joined(states: list[Any]) -> Any:
    """The state of all lanes from those of parts of them; every tensor has lanes first."""
    if len(states) == 1 or states[0] is None:
        return states[0]
    tensors = iter([torch.cat(parts) for parts in zip(*map(flattened, states), strict=True)])
    return mapped(lambda _: next(tensors), states[0])


def flattened(state: Any) -> list[Tensor]:
    return [state] if isinstance(state, Tensor) else [tensor for part in state for tensor in flattened(part)]
