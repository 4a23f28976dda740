"""Ends of a translation model, which reads and predicts word pieces.

x, y = S[source] sqrt(D), T[target] sqrt(D)  ->  encoder, decoder  ->  softmax(O M + b), M = T if tied

Shapes: B sentences, S source positions, T target positions, D width, V target vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.blocks.scored_attention import KeysValues, Past
from highway.config.datasets import PADDING
from highway.config.experiment import Experiment
from highway.describe import ZERO
from highway.models.encoder_decoder import Encoded, EncoderDecoderBackbone


class Pieces(nn.Module):
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
