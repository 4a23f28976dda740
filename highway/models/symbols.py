"""Ends of a language model, with one embedding E for input and output.

x = drop(E[token] sqrt(D)?)  ->  backbone  ->  softmax(O E^T + b)

`dropout_embedding` drops components of x. `dropout_embedding_words` drops words: in a training window, a dropped word
is dropped in its lane wherever it occurs. sqrt(D) is applied if `scale_embedding` is set.

Shapes: B lanes, T positions, D width, V vocabulary.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.blocks.layers import dropout
from highway.config.datasets import Reach
from highway.config.experiment import Experiment
from highway.config.models import Remembers
from highway.describe import Kind


class Symbols(nn.Module):
    starts = {"output_bias": Kind("output_bias")}

    def __init__(self, experiment: Experiment, backbone: nn.Module) -> None:
        super().__init__()
        model, symbols = experiment.model, experiment.dataset.vocabulary_size
        self.embedding = nn.Embedding(symbols, model.width_in)
        self.output_bias = nn.Parameter(torch.zeros(symbols))
        self.scale = model.width_in**0.5 if getattr(model, "scale_embedding", False) else 1.0
        self.dropout = getattr(model, "dropout_embedding", 0.0)
        self.dropout_words = getattr(model, "dropout_embedding_words", 0.0)
        self.backbone = backbone
        self.reach = experiment.dataset.evaluation.reach
        self.has_memory = experiment.remembers is Remembers.MEMORY

    def forward(self, tokens: Tensor, state: Any = None, reach: Reach | None = None) -> tuple[Tensor, Any]:
        """Return features (B, T, D) and the new state, from tokens (B, T) and the state of the previous call.

        reach: how far a memory reaches; by default as in evaluation.
        """
        x = dropout(self.embedding(tokens) * self.scale, self.dropout, self.training)
        if self.training and self.dropout_words:
            kept = dropout(x.new_ones(len(tokens), self.embedding.num_embeddings), self.dropout_words, True)
            x = x * kept.gather(1, tokens)[..., None]
        return self.backbone(x, state, reach or self.reach) if self.has_memory else self.backbone(x, state)

    def logits(self, features: Tensor) -> Tensor:  # (..., D) -> (..., V)
        return F.linear(features, self.embedding.weight, self.output_bias)
