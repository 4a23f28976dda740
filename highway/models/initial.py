"""Initial values, drawn for each parameter from a generator keyed by the seed and the parameter's name.

Two models that share a seed therefore share the initial values of every parameter that they have in
common: adding a gate changes no other parameter, and variants can be compared in pairs.

A module declares for each of its parameters a kind or a function that draws it (highway/describe.py). The model's
family defines the distribution of each kind. A parameter without a declaration, or of a kind that the family does not
know, raises an error.
"""

import hashlib
import math
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from highway.describe import Draw, Kind, constant, named_modules, normal, start_of, uniform


def keyed_generator(seed: int, name: str) -> torch.Generator:
    """Return the random generator of a parameter; it depends on the seed and the parameter's name alone."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def glorot(weight: Tensor, parts: int) -> Draw:
    """Return Glorot's uniform draw of a weight of `parts` stacked matrices; a convolution's has three dimensions."""
    fan_out, fan_in = weight.shape[-2:] if weight.ndim > 1 else (1, 1)
    if weight.ndim == 3:
        fan_out, fan_in = weight[:, 0].numel(), weight[0].numel()
    return uniform(math.sqrt(6 / (fan_in + fan_out / parts)))


class Family(Protocol):
    """The distributions of initial values in a family of models."""

    def draws(self, weight: Tensor, parts: int) -> dict[str, Draw]:
        """Return the draw of each kind of parameter, for a module with this `weight` of `parts` stacked matrices."""


@dataclass(frozen=True)
class LikeTorch:
    """torch's default for maps and their biases, U(+-1/sqrt(fan_in)); embeddings U(+-embedding) or N(0, embedding).

    With maps="embedding", maps are drawn as embeddings are, and their biases are 0. With maps="glorot", maps and
    embeddings have Glorot's draws.
    """

    embedding: float
    embedding_as: str = "uniform"
    maps: str = "torch"

    def draws(self, weight: Tensor, parts: int) -> dict[str, Draw]:
        default = uniform(1 / math.sqrt(max(weight[0].numel(), 1)))
        embedding = normal(0.0, self.embedding) if self.embedding_as == "normal" else uniform(self.embedding)
        maps, biases = default, default
        if self.maps == "embedding":
            maps, biases = embedding, constant(0.0)
        elif self.maps == "glorot":
            maps = embedding = glorot(weight, parts)
        return {
            "map": maps,
            "map_bias": biases,
            "gain": constant(1.0),
            "embedding": embedding,
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
        return {
            "map": glorot(weight, parts),
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
    """Draw the initial values of every parameter, each from a generator of its own."""
    for path, module in named_modules(model):
        for name, parameter in module.named_parameters(recurse=False):
            drawn = torch.empty(parameter.shape, dtype=torch.float32)
            start = start_of(module, name)
            draw = _draw(family, module, name, start) if isinstance(start, Kind) else start
            draw(drawn, keyed_generator(seed, f"{path}.{name}".lstrip(".")))
            parameter.copy_(drawn)


def _draw(family: Family, module: nn.Module, name: str, kind: Kind) -> Draw:
    weight: Any = getattr(module, "weight", None)
    draws = family.draws(getattr(module, name) if weight is None else weight, kind.parts)
    if kind.name == "map_bias" and weight is None:
        raise TypeError(f"{type(module).__name__}.{name} is the bias of a map, and its module has no `weight`.")
    if kind.name not in draws:
        raise TypeError(f"{type(module).__name__}.{name} is a {kind.name}, and {type(family).__name__} draws none.")
    return draws[kind.name]
