"""Initial values, drawn for each parameter from a generator keyed by the seed and the parameter's name.

Two models that share a seed therefore share the initial values of every parameter that they have in
common: adding a gate shifts nothing, and variants can be compared in pairs.
"""

import hashlib
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from highway.blocks.normalisation import LayerNorm
from highway.gates.residual import ResidualGate


def keyed_generator(seed: int, name: str) -> torch.Generator:
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


Draw = Callable[[Tensor, torch.Generator], Any]  # fills a tensor with its initial values


@torch.no_grad()
def _draw(model: nn.Module, seed: int, how: Callable[[nn.Module, str], Draw]) -> None:
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            drawn = torch.empty(parameter.shape, dtype=torch.float32)
            how(module, name)(drawn, keyed_generator(seed, f"{path}.{name}".lstrip(".")))
            parameter.copy_(drawn)


def initialise(model: nn.Module, seed: int, embedding: float) -> None:
    """Embeddings U(-embedding, embedding); linear maps as torch's default, U(+-1/sqrt(fan_in)); gate biases 0."""
    zero_biases = {id(part) for gate in model.modules() if isinstance(gate, ResidualGate) for part in gate.modules()}

    def how(module: nn.Module, name: str) -> Draw:
        bound = _bound(module, name, embedding, id(module) in zero_biases)
        if bound is None:
            return lambda drawn, generator: drawn.fill_(1.0)
        return lambda drawn, generator: drawn.uniform_(-bound, bound, generator=generator)

    _draw(model, seed, how)


def initialise_normal(model: nn.Module, seed: int, deviation: float) -> None:
    """Everything N(0, deviation), as the released Transformer-XL code; gains N(1, deviation); biases of maps 0."""

    def how(module: nn.Module, name: str) -> Draw:
        if name == "output_bias" or (name == "bias" and isinstance(module, nn.Linear | LayerNorm)):
            return lambda drawn, generator: drawn.zero_()
        mean = 1.0 if isinstance(module, LayerNorm) else 0.0
        return lambda drawn, generator: drawn.normal_(mean, deviation, generator=generator)

    _draw(model, seed, how)


def initialise_glorot(model: nn.Module, seed: int, embedding: float) -> None:
    """Maps U(+-sqrt(6 / (fan in + fan out))), each matrix by itself; biases 0, gains 1; embeddings U(+-embedding)."""

    def how(module: nn.Module, name: str) -> Draw:
        if name in ("bias", "output_bias"):
            return lambda drawn, generator: drawn.zero_()
        if isinstance(module, LayerNorm):
            return lambda drawn, generator: drawn.fill_(1.0)
        bound = embedding if isinstance(module, nn.Embedding) else _glorot(module.weight, getattr(module, "parts", 1))
        return lambda drawn, generator: drawn.uniform_(-bound, bound, generator=generator)

    _draw(model, seed, how)


def _glorot(weight: Any, parts: int) -> float:
    """Of a matrix in the last two dimensions, or of several of them one above the other."""
    fan_out, fan_in = weight.shape[-2:]
    return math.sqrt(6 / (fan_in + fan_out / parts))


def _bound(module: nn.Module, name: str, embedding: float, zero_bias: bool) -> float | None:
    """The half-width of a parameter's uniform distribution; None for a gain, which is 1."""
    if isinstance(module, LayerNorm):
        return None if name == "weight" else 0.0
    if isinstance(module, nn.Embedding):
        return embedding
    if isinstance(module, nn.Linear | nn.Conv1d):
        if name == "bias" and zero_bias:
            return 0.0
        return 1 / math.sqrt(module.weight[0].numel())
    if name == "output_bias":
        return 0.0
    raise TypeError(f"no initial distribution is defined for {type(module).__name__}.{name}")
