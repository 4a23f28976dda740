"""The base class of all gates, and the function that builds a gate from its name."""

from typing import Any

from torch import Tensor, nn

from highway.cards.card import loaded
from highway.cards.gates import GATES


class Gate(nn.Module):
    """The base class of gates, whose parameters are counted as those of gates."""

    is_gate = True

    def probes(self) -> dict[str, Tensor]:
        return {}


def build_gate(interface: str, name: str, *about: Any) -> nn.Module:
    """Build the gate `name` of an interface; `about` are the arguments that its card names for its class."""
    return loaded(GATES[interface][name].code)(*about)
