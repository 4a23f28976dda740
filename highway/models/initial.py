"""Initial values, drawn for each parameter from a generator keyed by the seed and the parameter's name.

Two models that share a seed therefore share the initial values of every parameter that they have in
common: adding a gate changes no other parameter, and variants can be compared in pairs.

A module declares the kind of each of its parameters (highway/describe.py). The model's family defines the distribution
of each kind. A parameter without a kind, or of a kind that the family does not know, raises an error.
"""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from highway.describe import Start, start_of


def keyed_generator(seed: int, name: str) -> torch.Generator:
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


Draw = Callable[[Tensor, torch.Generator], Any]  # fills a tensor with its initial values


def uniform(bound: float) -> Draw:
    return lambda drawn, generator: drawn.uniform_(-bound, bound, generator=generator)


def normal(mean: float, deviation: float) -> Draw:
    return lambda drawn, generator: drawn.normal_(mean, deviation, generator=generator)


def constant(value: float) -> Draw:
    return lambda drawn, generator: drawn.fill_(value)


def norms(other: Tensor) -> Draw:
    return lambda drawn, generator: drawn.copy_(other.flatten(1).norm(dim=1))


ANYWHERE: dict[str, Callable[[nn.Module, Start], Draw]] = {  # kinds that are the same in every family
    "constant": lambda module, start: constant(start.value),
    "uniform": lambda module, start: uniform(start.value),
    "normal": lambda module, start: normal(0.0, start.value),
    "norms": lambda module, start: norms(getattr(module, start.of)),  # `of` is drawn already: it comes first
}


class Family(Protocol):
    def draws(self, weight: Tensor, parts: int) -> dict[str, Draw]:
        """Return the draw of each kind of parameter, for a module with this `weight` of `parts` stacked matrices."""


@dataclass(frozen=True)
class LikeTorch:
    """torch's default for maps and their biases, U(+-1/sqrt(fan_in)); embeddings U(+-embedding) or N(0, embedding)."""

    embedding: float
    embedding_as: str = "uniform"

    def draws(self, weight: Tensor, parts: int) -> dict[str, Draw]:
        bound = 1 / math.sqrt(max(weight[0].numel(), 1))
        return {
            "map": uniform(bound),
            "map_bias": uniform(bound),
            "gain": constant(1.0),
            "embedding": normal(0.0, self.embedding) if self.embedding_as == "normal" else uniform(self.embedding),
            "output_bias": constant(0.0),
        }


@dataclass(frozen=True)
class Normal:
    """Draws of the released Transformer-XL code: all N(0, deviation), but gains N(1, deviation) and biases 0."""

    deviation: float

    def draws(self, weight: Tensor, parts: int) -> dict[str, Draw]:
        around_zero = normal(0.0, self.deviation)
        return {
            "map": around_zero,
            "map_bias": constant(0.0),
            "gain": normal(1.0, self.deviation),
            "embedding": around_zero,
            "vector": around_zero,
            "output_bias": constant(0.0),
        }


@dataclass(frozen=True)
class Glorot:
    """Glorot's draws: maps U(+-sqrt(6 / (fan_in + fan_out))), each stacked matrix on its own; biases 0, gains 1.

    Embeddings are drawn from U(+-embedding).
    """

    embedding: float

    def draws(self, weight: Tensor, parts: int) -> dict[str, Draw]:
        fan_out, fan_in = weight.shape[-2:] if weight.ndim > 1 else (1, 1)
        return {
            "map": uniform(math.sqrt(6 / (fan_in + fan_out / parts))),
            "map_bias": constant(0.0),
            "gain": constant(1.0),
            "embedding": uniform(self.embedding),
        }


@dataclass(frozen=True)
class Uniform:
    """Draws of the code of recurrent highway networks: all U(+-bound), biases and embeddings too."""

    bound: float

    def draws(self, weight: Tensor, parts: int) -> dict[str, Draw]:
        return dict.fromkeys(("map", "map_bias", "embedding", "output_bias"), uniform(self.bound))


@torch.no_grad()
def initialise(model: nn.Module, seed: int, family: Family) -> None:
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            drawn = torch.empty(parameter.shape, dtype=torch.float32)
            draw = _draw(family, module, name, start_of(module, name))
            draw(drawn, keyed_generator(seed, f"{path}.{name}".lstrip(".")))
            parameter.copy_(drawn)


def _draw(family: Family, module: nn.Module, name: str, start: Start) -> Draw:
    if start.kind in ANYWHERE:
        return ANYWHERE[start.kind](module, start)
    weight: Any = getattr(module, "weight", None)
    draws = family.draws(getattr(module, name) if weight is None else weight, start.parts)
    if start.kind == "map_bias" and weight is None:
        raise TypeError(f"{type(module).__name__}.{name} is the bias of a map, and its module has no `weight`.")
    if start.kind not in draws:
        raise TypeError(f"{type(module).__name__}.{name} is a {start.kind}, and {type(family).__name__} draws none.")
    return draws[start.kind]
