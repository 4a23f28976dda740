"""The Transformer language model of Highway Transformer (Chai et al., 2020), sections 2.1-2.2 and 3.

    X = E + PE(E)                                   Eq. 6
    post-norm   U = LN(gate(X, Att(X)))             Eqs. 7, 23
                O = LN(gate(U, FFN(U)))             Eqs. 9, 24
    pre-norm    U = gate(X, Att(LN X))              what the R-Transformer code does, which the
                O = gate(U, FFN(LN U))              PTB numbers come from; no norm after the last block
    softmax(O E^T + b)                              output weights tied to the embedding

gate(x, f) is x + f without a gate; see highway/gates/residual.py for the others.
"""

from collections.abc import Collection

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.blocks.attention import CausalAttention
from highway.blocks.dropout import dropout
from highway.blocks.feed_forward import FeedForward
from highway.blocks.normalisation import LayerNorm
from highway.blocks.positions import sinusoids
from highway.blocks.sublayer import Sublayer
from highway.config.schema import Experiment, Transformer
from highway.models.initial import initialise


class Block(nn.Module):
    def __init__(self, model: Transformer, experiment: Experiment, gated: Collection[str]) -> None:
        super().__init__()
        gate = experiment.gate
        attention = CausalAttention(model.width, model.heads, model.dropout_attention)
        feed_forward = FeedForward(model.width, model.feed_forward, model.dropout_feed_forward)
        norms = [LayerNorm(model.width, model.norm_deviation) for _ in range(2)]
        self.attention = Sublayer(attention, model, gate, "attention" in gated, norms[0], model.dropout)
        self.feed_forward = Sublayer(feed_forward, model, gate, "feed_forward" in gated, norms[1], model.dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.feed_forward(self.attention(x))


class TransformerLanguageModel(nn.Module):
    def __init__(self, experiment: Experiment) -> None:
        super().__init__()
        model = experiment.model
        assert isinstance(model, Transformer)
        self.embedding = nn.Embedding(experiment.dataset.vocabulary_size, model.width)
        self.output_bias = nn.Parameter(torch.zeros(experiment.dataset.vocabulary_size))
        self.scale = model.width**0.5 if model.scale_embedding else 1.0
        self.dropout = model.dropout_embedding
        self.positions: Tensor
        self.register_buffer("positions", torch.empty(0, model.width), persistent=False)
        self.blocks = nn.ModuleList(
            Block(model, experiment, experiment.gated_in(layer)) for layer in range(1, model.layers + 1)
        )
        initialise(self, experiment.seed, model.init_embedding)

    def forward(self, tokens: Tensor, state: None = None) -> tuple[Tensor, None]:
        """tokens (B, T) -> features (B, T, D); a Transformer carries no state."""
        embedded = dropout(self.embedding(tokens) * self.scale, self.dropout, self.training)
        x = embedded + self._positions(tokens.shape[1]).to(embedded)
        for block in self.blocks:
            x = block(x)
        return x, None

    def logits(self, features: Tensor) -> Tensor:  # (..., D) -> (..., V)
        return F.linear(features, self.embedding.weight, self.output_bias)

    def _positions(self, length: int) -> Tensor:
        if self.positions.shape[0] < length:
            self.positions = sinusoids(length, self.positions.shape[1]).to(self.positions)
        return self.positions[:length]
