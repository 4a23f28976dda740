"""Initial values, drawn for each parameter from a generator keyed by the seed and the parameter's name.

Two models that share a seed therefore share the initial values of every parameter that they have in
common: adding a gate shifts nothing, and variants can be compared in pairs.
"""

import hashlib
import math

import torch
from torch import nn

from highway.blocks.normalisation import LayerNorm
from highway.gates.residual import ResidualGate


def keyed_generator(seed: int, name: str) -> torch.Generator:
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


@torch.no_grad()
def initialise(model: nn.Module, seed: int, embedding: float) -> None:
    """Embeddings U(-embedding, embedding); linear maps as torch's default, U(+-1/sqrt(fan_in)); gate biases 0."""
    zero_biases = {id(part) for gate in model.modules() if isinstance(gate, ResidualGate) for part in gate.modules()}
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            full_name = f"{path}.{name}".lstrip(".")
            bound = _bound(module, name, embedding, id(module) in zero_biases)
            if bound is None:
                parameter.fill_(1.0)
            else:
                drawn = torch.empty(parameter.shape, dtype=torch.float32)
                parameter.copy_(drawn.uniform_(-bound, bound, generator=keyed_generator(seed, full_name)))


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
