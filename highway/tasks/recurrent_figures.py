"""Measure trained recurrent models for figures: the values of state gates, and gradient norms by distance."""

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.describe import gates_of
from highway.models.backbone import mapped

STEPS = 80  # random steps of the text at which gate values are recorded
BINS = 100  # histogram bins of gate values, from 0 to 1
REACH = 100  # largest distance, in steps, of gradient norms
LANES, WARM_UP, POSITIONS = (
    20,
    35,
    3,
)  # gradient norms: lanes of text, steps before the first position, positions a lane


@torch.no_grad()
def gate_values(model: Any, stream: Tensor) -> dict[str, Tensor]:
    """Return for each state gate a histogram, BINS bins over [0, 1], of its values at STEPS random steps of a text."""
    gates = {location: gate for location, gate in gates_of(model).items() if hasattr(gate, "carried")}
    if not gates:
        return {}
    tokens = stream[: 20 * STEPS].long()[None]
    chosen = set(random.Random(0).sample(range(tokens.shape[1]), min(STEPS, tokens.shape[1])))
    values_at: dict[str, list[Tensor]] = {}
    hooks = []
    for location, gate in gates.items():
        hooks.append(gate.register_forward_hook(_look(chosen, values_at.setdefault(location, []))))
    model(tokens.to(next(model.parameters()).device))
    for hook in hooks:
        hook.remove()
    return {
        location: torch.histc(torch.cat([value.flatten() for value in values]).float().cpu(), BINS, 0, 1)
        for location, values in values_at.items()
    }


def _look(chosen: set[int], values: list[Tensor]) -> Any:
    """Return a forward hook that records a gate's values at the chosen steps; the gate is called once for each step."""
    calls = iter(range(1 << 62))

    def hook(gate: nn.Module, inputs: tuple[Any, ...], _: Tensor) -> None:
        if next(calls) in chosen:
            values.append(gate.carried(*inputs))  # type: ignore[operator]

    return hook


def gradient_norms(model: Any, stream: Tensor) -> Tensor:
    """Return the norm of d loss[t] / d s[t-k] for each k, where s is the last layer's state.

    The norms are averaged over LANES lanes and POSITIONS positions t of each lane.
    """
    lanes = min(LANES, max(len(stream) // (WARM_UP + POSITIONS * (REACH + 1) + 1), 1))
    text = stream[: len(stream) // lanes * lanes].view(lanes, -1).long().to(next(model.parameters()).device)
    reach = min(REACH, (text.shape[1] - 1 - WARM_UP) // POSITIONS - 1)
    with torch.no_grad():
        _, state = model(text[:, :WARM_UP], None)
    norms = torch.zeros(reach + 1)
    at = WARM_UP
    for _ in range(POSITIONS):
        states: list[Tensor] = []
        for _ in range(reach + 1):
            features, state = model(text[:, at : at + 1], state)
            states.append(_last_of(state))
            at += 1
        states[-1] = features  # the loss is computed from these; the state after the last step is unused
        loss = F.cross_entropy(model.logits(features[:, 0]), text[:, at], reduction="sum")
        gradients = torch.autograd.grad(loss, states)
        norms += (
            torch.stack([gradient.flatten(1).norm(dim=1).mean() for gradient in reversed(gradients)]).cpu() / POSITIONS
        )
        state = mapped(Tensor.detach, state)
    return norms


def _last_of(state: Any) -> Tensor:
    """Return the hidden state of the last layer (h, for an LSTM)."""
    last = state if isinstance(state, Tensor) else state[-1]
    return last if isinstance(last, Tensor) else last[0]
