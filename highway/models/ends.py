"""Ends: input and output layers around a backbone, for symbols of a text, values of an image or tune, word pieces.

Shapes: B lanes, rows or sentences, T positions, S source positions, D width, V vocabulary, or values at a position.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.blocks.layers import dropout
from highway.blocks.scored_attention import KeysValues, Past
from highway.cards.datasets import CLASSES, KEYS, PADDING, Context
from highway.cards.models import Remembers
from highway.config.experiment import Experiment
from highway.describe import EMBEDDING, ZERO, Kind
from highway.models.encoder_decoder import Encoded, EncoderDecoderBackbone


class Symbols(nn.Module):
    """The ends of a language model: an embedding E, and an output map M, which is E if tied.

    x = drop(E[token])  ->  backbone  ->  softmax(O M^T + b)        E[token] sqrt(D) with `scale_embedding`

    `dropout_embedding` drops components of x. `dropout_embedding_words` drops words: in a lane of a training window,
    every occurrence of a dropped word is zero.
    """

    starts = {"output_bias": Kind("output_bias"), "output": EMBEDDING}

    def __init__(self, experiment: Experiment, backbone: nn.Module) -> None:
        super().__init__()
        model, symbols = experiment.model, experiment.dataset.vocabulary_size
        self.embedding = nn.Embedding(symbols, model.width_in)
        self.output = None if model.tied else nn.Parameter(torch.empty(symbols, model.width_out))
        self.output_bias = nn.Parameter(torch.zeros(symbols))
        self.scale = model.width_in**0.5 if getattr(model, "scale_embedding", False) else 1.0
        self.dropout = getattr(model, "dropout_embedding", 0.0)
        self.dropout_words = getattr(model, "dropout_embedding_words", 0.0)
        self.backbone = backbone
        self.context = experiment.dataset.evaluation.context
        self.has_memory = experiment.remembers is Remembers.MEMORY

    def forward(self, tokens: Tensor, state: Any = None, context: Context | None = None) -> tuple[Tensor, Any]:
        """Return features (B, T, D) and the new state, from tokens (B, T) and the state of the previous call.

        context: what a memory sees beyond the tokens; by default as in evaluation.
        """
        x = dropout(self.embedding(tokens) * self.scale, self.dropout, self.training)
        if self.training and self.dropout_words:
            mask = dropout(x.new_ones(len(tokens), self.embedding.num_embeddings), self.dropout_words, True)
            x = x * mask.gather(1, tokens)[..., None]
        return self.backbone(x, state, context or self.context) if self.has_memory else self.backbone(x, state)

    def logits(self, features: Tensor) -> Tensor:  # (..., D) -> (..., V)
        return F.linear(features, self.embedding.weight if self.output is None else self.output, self.output_bias)


class Values(nn.Module):
    """The base of ends that read values: pixels of an image, or the piano keys that are down at each step.

    x = W v[t] + b  ->  backbone  ->  V features + c        then a softmax at the last pixel, or a sigmoid for each key

    There are no W and b if the backbone reads vectors of V components.
    """

    values: int  # number of values at a position
    outputs: int

    def __init__(self, experiment: Experiment, backbone: nn.Module) -> None:
        super().__init__()
        model = experiment.model
        self.input = nn.Identity() if self.values == model.width_in else nn.Linear(self.values, model.width_in)
        self.backbone = backbone
        self.output = nn.Linear(model.width_out, self.outputs)

    def forward(self, values: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Return features (B, T, D) and the new state, from values (B, T, V), V of them at each position."""
        return self.backbone(self.input(values), state)

    def logits(self, features: Tensor) -> Tensor:  # (..., D) -> (..., outputs)
        return self.output(features)


class Pixels(Values):
    """The ends of a model that predicts the class of an image."""

    values, outputs = 1, CLASSES


class Keys(Values):
    """The ends of a model that predicts for each key whether it is down at the next step."""

    values, outputs = KEYS, KEYS


class Pieces(nn.Module):
    """The ends of a translation model, which reads and predicts word pieces.

    x, y = P[source] sqrt(D), Q[target] sqrt(D)  ->  encoder, decoder  ->  softmax(O M + b), M = Q if tied
    """

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
        """Compute features (B, T, D) from source (B, S) and target (B, T); those at t depend on the target up to t."""
        return self.decode(target, self.encode(source))

    def encode(self, source: Tensor) -> Encoded:
        return self.backbone.encode(self.source_embedding(source) * self.scale, source == PADDING)

    def decode(self, target: Tensor, encoded: Encoded) -> Tensor:
        return self.backbone.decode(self.target_embedding(target) * self.scale, encoded)

    def step(
        self, newest: Tensor, position: int, source: list[KeysValues], source_mask: Tensor, pasts: list[Past]
    ) -> Tensor:
        """Return logits (B, V) of the next symbol, from newest (B, 1), the target's symbol at `position`.

        pasts: the keys and values of all earlier positions, for each layer; the step adds those of `position`.
        """
        y = self.target_embedding(newest) * self.scale
        return self.logits(self.backbone.step(y, position, source, source_mask, pasts)[:, -1])

    def logits(self, features: Tensor) -> Tensor:  # (..., D) -> (..., V)
        if self.tied:
            return F.linear(features, self.target_embedding.weight, self.output_bias)
        return self.output(features)
