"""Declarations of modules, read when parameters are initialised, recorded or probed; and the names of parameters.

The readers know no class by name. A module may declare:

starts     parameter name -> its initial values; every parameter of the module itself needs an entry
is_gate    True if its parameters count as gate parameters
probes()   arrays to save after training, by name

A model holds its backbone under the name `backbone`. Files, seeds and probes leave this name out (`flat`). A parameter
of a backbone therefore has the same name and the same initial values with any input and output layers around it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Draw = Callable[[Tensor, torch.Generator], Any]  # fills a tensor with its initial values


@dataclass(frozen=True)
class Kind:
    """A kind of initial values, whose distribution the model's family defines (highway/models/initial.py)."""

    name: str
    parts: int = 1  # number of stacked matrices, each drawn on its own


InitialValues = Kind | Draw


def uniform(bound: float) -> Draw:
    return lambda drawn, generator: drawn.uniform_(-bound, bound, generator=generator)


def normal(mean: float, deviation: float) -> Draw:
    return lambda drawn, generator: drawn.normal_(mean, deviation, generator=generator)


def constant(value: float) -> Draw:
    return lambda drawn, generator: drawn.fill_(value)


def copied(module: nn.Module, name: str, rows: int | None = None) -> Draw:
    """Return a draw that copies the first `rows` rows, by default all, of a parameter that is drawn before."""
    return lambda drawn, generator: drawn.copy_(getattr(module, name)[:rows])


MAP, MAP_BIAS, GAIN, EMBEDDING, VECTOR = map(Kind, ("map", "map_bias", "gain", "embedding", "vector"))
ZERO = constant(0.0)

OF_TORCH = {  # layers of torch have no `starts` of their own
    nn.Linear: {"weight": MAP, "bias": MAP_BIAS},
    nn.Conv1d: {"weight": MAP, "bias": MAP_BIAS},
    nn.Embedding: {"weight": EMBEDDING},
}


def start_of(module: nn.Module, name: str) -> InitialValues:
    """Return the declared initial values of a module's parameter: a kind, or a function that draws them."""
    declared = getattr(module, "starts", {}) or OF_TORCH.get(type(module), {})
    if name not in declared:
        example = f'starts = {{"{name}": ZERO}}'
        raise TypeError(f"{type(module).__name__}.{name} has no declared start. Write `{example}` in its class, say.")
    return declared[name]


def flat(name: str) -> str:
    """Return the name of a module or parameter of a model without `backbone`."""
    return name.removeprefix("backbone").removeprefix(".") if f"{name}.".startswith("backbone.") else name


def named_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules of a model by flat name; the model and its backbone have the empty name."""
    return ((flat(name), module) for name, module in model.named_modules())


def named_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters by flat name, first those of the model and of its backbone themselves.

    Checkpoints number the state of an optimiser in this order, and norms of gradients add up in it.
    """
    named = [(flat(name), parameter) for name, parameter in model.named_parameters()]
    return dict(sorted(named, key=lambda item: "." in item[0]))


def gates_of(model: nn.Module) -> dict[str, Any]:
    """Return the gates of a model by name."""
    return {name: module for name, module in named_modules(model) if getattr(module, "is_gate", False)}


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
    for location, module in named_modules(model):
        for name, value in getattr(module, "probes", dict)().items():
            probes.setdefault(name, {})[location] = value
    return probes
