"""What all gates are, and how one is made from its name."""

from typing import Any

from torch import Tensor, nn

from highway.config.code import loaded
from highway.config.gates import GATES


class Gate(nn.Module):
    is_gate = True

    def probes(self) -> dict[str, Tensor]:
        return {}


def gate(interface: str, name: str, *about: Any) -> nn.Module:
    """A gate of an interface, built from what its card says that its class takes."""
    return loaded(GATES[interface][name].code)(*about)
