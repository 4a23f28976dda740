"""What a module says of itself. Initial values, records and probes ask, and know no class by name.

starts     parameter name -> how it starts, for the module's own parameters; none may be left out
is_gate    whether its parameters count as those of a gate
probes()   arrays that are worth keeping when it is trained, by name
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True)
class Start:
    """A kind of initial value; what it is drawn from is the family's to say (highway/models/initial.py)."""

    kind: str
    value: float = 0.0  # of a constant; the bound of a uniform draw, the deviation of a normal one
    parts: int = 1  # matrices one above the other, each drawn as if it stood alone
    of: str = ""  # of the norms of another parameter's rows: which


MAP, MAP_BIAS, GAIN, EMBEDDING, VECTOR = map(Start, ("map", "map_bias", "gain", "embedding", "vector"))
ZERO = Start("constant")

OF_TORCH = {  # torch's own layers cannot say it
    nn.Linear: {"weight": MAP, "bias": MAP_BIAS},
    nn.Conv1d: {"weight": MAP, "bias": MAP_BIAS},
    nn.Embedding: {"weight": EMBEDDING},
}


def start_of(module: nn.Module, name: str) -> Start:
    declared = getattr(module, "starts", {}) or OF_TORCH.get(type(module), {})
    if name not in declared:
        raise TypeError(f"{type(module).__name__}.{name} has no declared start: its class says it in `starts`.")
    return declared[name]


def gates_of(model: nn.Module) -> dict[str, Any]:
    """The gates of a model by name."""
    return {name: module for name, module in model.named_modules() if getattr(module, "is_gate", False)}


def parameter_counts(model: nn.Module) -> dict[str, int]:
    gates = {id(parameter): parameter for gate in gates_of(model).values() for parameter in gate.parameters()}
    return {
        "total": sum(parameter.numel() for parameter in model.parameters()),
        "trainable": sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad),
        "gate": sum(parameter.numel() for parameter in gates.values()),
    }


def probes_of(model: nn.Module) -> dict[str, dict[str, Tensor]]:
    """What is worth keeping -> where it is in the model -> its value."""
    found: dict[str, dict[str, Tensor]] = {}
    for place, module in model.named_modules():
        for name, value in getattr(module, "probes", dict)().items():
            found.setdefault(name, {})[place] = value
    return found
