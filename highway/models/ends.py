"""What stands around a backbone: ends know what its vectors are, the backbone does not.

    Symbols   E[token] sqrt(D)?  ->  backbone  ->  softmax(O E^T + b)            language modelling
    Pieces    source and target embedded  ->  encoder, decoder  ->  logits       translation

A model is its ends with the backbone inside. Names of parameters are flat: `backbone` stands in none of them, so that
a parameter is called the same, and starts the same, whatever stands around its backbone.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.blocks.dropout import dropout
from highway.blocks.scored_attention import KeysValues, Past
from highway.config.datasets import PADDING
from highway.config.experiment import Experiment
from highway.describe import ZERO
from highway.models.encoder_decoder import Encoded, EncoderDecoderBackbone

INSIDE = "backbone"


class Ends(nn.Module):
    """Everything that a task does with its model, it does with its ends."""

    backbone: nn.Module

    def __init__(self) -> None:
        super().__init__()
        self.register_state_dict_post_hook(_without_backbone)
        self.register_load_state_dict_pre_hook(_with_backbone)

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Module]]:
        """In the order of one flat module: own parameters of both first, then the parts as they were made."""
        memo = set() if memo is None else memo
        yield prefix, self
        yield prefix, self.backbone
        memo |= {self, self.backbone}
        for name, part in self.named_children():
            inside = part.named_children() if name == INSIDE else [(name, part)]
            for inner, module in inside:
                yield from module.named_modules(memo, f"{prefix}.{inner}".lstrip("."), remove_duplicate)


def _without_backbone(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    for name in [name for name in state if name.startswith(f"{prefix}{INSIDE}.")]:
        state[prefix + name.removeprefix(f"{prefix}{INSIDE}.")] = state.pop(name)


def _with_backbone(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    own = {*module._parameters, *module._buffers, *module._modules}
    for name in [name for name in state if name.startswith(prefix)]:
        if name.removeprefix(prefix).split(".")[0] not in own:
            state[f"{prefix}{INSIDE}.{name.removeprefix(prefix)}"] = state.pop(name)


class Symbols(Ends):
    """One embedding for what is read and what is predicted."""

    starts = {"output_bias": ZERO}

    def __init__(self, experiment: Experiment, backbone: nn.Module) -> None:
        super().__init__()
        model, symbols = experiment.model, experiment.dataset.vocabulary_size
        self.embedding = nn.Embedding(symbols, model.width)
        self.output_bias = nn.Parameter(torch.zeros(symbols))
        self.scale = model.width**0.5 if model.scale_embedding else 1.0
        self.dropout = model.dropout_embedding
        self.backbone = backbone

    def forward(self, tokens: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """tokens (B, T), what the call before left -> features (B, T, D), what this one leaves."""
        x = dropout(self.embedding(tokens) * self.scale, self.dropout, self.training)
        return self.backbone(x, state)

    def logits(self, features: Tensor) -> Tensor:  # (..., D) -> (..., V)
        return F.linear(features, self.embedding.weight, self.output_bias)


class Pieces(Ends):
    """Embeddings of source and target, and an output map of its own unless `model.tied`."""

    starts = {"output_bias": ZERO}
    backbone: EncoderDecoderBackbone

    def __init__(self, experiment: Experiment, backbone: EncoderDecoderBackbone) -> None:
        super().__init__()
        model, vocabulary = experiment.model, experiment.dataset.vocabulary_sizes
        self.source_embedding = nn.Embedding(vocabulary[0], model.width)
        self.target_embedding = nn.Embedding(vocabulary[1], model.width)
        self.backbone = backbone
        if model.tied:
            self.output_bias = nn.Parameter(torch.zeros(vocabulary[1]))
        else:
            self.output = nn.Linear(model.width, vocabulary[1])
        self.tied, self.scale = model.tied, model.width**0.5

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """source (B, S), target (B, T) -> features (B, T, D); features at t have seen the target up to t."""
        return self.decode(target, self.encode(source))

    def encode(self, source: Tensor) -> Encoded:
        return self.backbone.encode(self.source_embedding(source) * self.scale, source == PADDING)

    def decode(self, target: Tensor, encoded: Encoded) -> Tensor:
        return self.backbone.decode(self.target_embedding(target) * self.scale, encoded)

    def step(
        self, newest: Tensor, place: int, source: list[KeysValues], source_mask: Tensor, pasts: list[Past]
    ) -> Tensor:
        """newest (B, 1), the target's symbol at `place` -> logits (B, V) of the next one, from what pasts hold."""
        y = self.target_embedding(newest) * self.scale
        return self.logits(self.backbone.step(y, place, source, source_mask, pasts)[:, -1])

    def logits(self, features: Tensor) -> Tensor:  # (..., D) -> (..., V)
        if self.tied:
            return F.linear(features, self.target_embedding.weight, self.output_bias)
        return self.output(features)
