"""Declarations of modules, read when parameters are initialised, recorded or probed.

The readers know no class by name. A module may declare:

starts     parameter name -> kind of initial value; every parameter of the module itself needs one
is_gate    True if its parameters count as gate parameters
probes()   arrays to save after training, by name
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True)
class Start:
    """A kind of initial value. The model's family defines its distribution (highway/models/initial.py)."""

    kind: str
    value: float = (
        0.0  # the value of a constant, the bound of a uniform draw, or the standard deviation of a normal draw
    )
    parts: int = 1  # number of stacked matrices, each drawn on its own
    of: str = ""  # the parameter whose row norms are the value


MAP, MAP_BIAS, GAIN, EMBEDDING, VECTOR = map(Start, ("map", "map_bias", "gain", "embedding", "vector"))
ZERO = Start("constant")

OF_TORCH = {  # layers of torch have no `starts` of their own
    nn.Linear: {"weight": MAP, "bias": MAP_BIAS},
    nn.Conv1d: {"weight": MAP, "bias": MAP_BIAS},
    nn.Embedding: {"weight": EMBEDDING},
}


def start_of(module: nn.Module, name: str) -> Start:
    """Return the declared initial value of a module's parameter."""
    declared = getattr(module, "starts", {}) or OF_TORCH.get(type(module), {})
    if name not in declared:
        raise TypeError(f"{type(module).__name__}.{name} has no declared start: its class says it in `starts`.")
    return declared[name]


def gates_of(model: nn.Module) -> dict[str, Any]:
    """Return the gates of a model by name."""
    return {name: module for name, module in model.named_modules() if getattr(module, "is_gate", False)}


def parameter_counts(model: nn.Module) -> dict[str, int]:
    """Count all, the trainable and the gate parameters of a model."""
    gates = {id(parameter): parameter for gate in gates_of(model).values() for parameter in gate.parameters()}
    return {
        "total": sum(parameter.numel() for parameter in model.parameters()),
        "trainable": sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad),
        "gate": sum(parameter.numel() for parameter in gates.values()),
    }


def probes_of(model: nn.Module) -> dict[str, dict[str, Tensor]]:
    """Return the probes of a model: probe name -> name of the module -> array."""
    probes: dict[str, dict[str, Tensor]] = {}
    for location, module in model.named_modules():
        for name, value in getattr(module, "probes", dict)().items():
            probes.setdefault(name, {})[location] = value
    return probes
