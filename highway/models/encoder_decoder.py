"""The encoder-decoder Transformer of Gated ResNet Transformer (Mahde and Hassan), sections III and V.

    source   X = E sqrt(D) + PE        U = LN(gate(X, Att(X)))                              encoder, each layer
                                       O = LN(gate(U, FFN(U)))
    target   Y = E sqrt(D) + PE        V = LN(gate(Y, Att(Y)))   no position sees a later   decoder, each layer
                                       W = LN(gate(V, Att(V, encoder's O)))
                                       Z = LN(gate(W, FFN(W)))
    softmax(Z M + b)

Post-norm as the paper's code, or pre-norm without final norms. Each attention's scores may read those of earlier layers
of its own kind (highway/gates/scores.py); `gate` is x + f without a residual gate (highway/gates/residual.py).
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.blocks.dropout import dropout
from highway.blocks.feed_forward import FeedForward
from highway.blocks.normalisation import LayerNorm
from highway.blocks.positions import distance_codes
from highway.blocks.scored_attention import CrossAttention, Earlier, KeysValues, Past, SelfAttention
from highway.blocks.sublayer import Sublayer
from highway.config.schema import EncoderDecoder, Experiment
from highway.config.symbols import PADDING
from highway.gates.scores import score_gate
from highway.models.initial import initialise_glorot


class Encoded(NamedTuple):
    features: Tensor  # (B, S, D)
    mask: Tensor  # (B, 1, 1, S): 0, and minus infinity where the source is padding


class Layer(nn.Module):
    """What encoder and decoder layers share: how a sublayer is made."""

    def __init__(self, experiment: Experiment, layer: int) -> None:
        super().__init__()
        assert isinstance(experiment.model, EncoderDecoder)
        self.model, self.residual, self.score = experiment.model, experiment.gate, experiment.gate.score
        self.gated, self.layer = experiment.gated_in(layer), layer

    def attention(self, kind: type[SelfAttention] | type[CrossAttention], where: str) -> Sublayer:
        model = self.model
        gate = score_gate(self.score, self.layer if where in self.score.attention else 1, model.heads)
        function = kind(model.width, model.heads, model.head_width, model.dropout_attention, gate)
        return self.sublayer(function, "attention", model.dropout_attention_output)

    def sublayer(self, function: nn.Module, name: str, rate: float) -> Sublayer:
        norm = LayerNorm(self.model.width, "biased", self.model.norm_epsilon)
        return Sublayer(function, self.model, self.residual, name in self.gated, norm, rate)

    def feed_forward_sublayer(self) -> Sublayer:
        model = self.model
        function = FeedForward(model.width, model.feed_forward, model.dropout_feed_forward)
        return self.sublayer(function, "feed_forward", model.dropout)


class EncoderLayer(Layer):
    def __init__(self, experiment: Experiment, layer: int) -> None:
        super().__init__(experiment, layer)
        self.itself = self.attention(SelfAttention, "encoder")
        self.feed_forward = self.feed_forward_sublayer()

    def forward(self, x: Tensor, mask: Tensor, earlier: Earlier) -> Tensor:
        return self.feed_forward(self.itself(x, None, mask, earlier))


class DecoderLayer(Layer):
    def __init__(self, experiment: Experiment, layer: int) -> None:
        super().__init__(experiment, layer)
        self.itself = self.attention(SelfAttention, "decoder")
        self.cross = self.attention(CrossAttention, "cross")
        self.feed_forward = self.feed_forward_sublayer()

    def forward(
        self,
        y: Tensor,
        mask: Tensor,
        source: KeysValues,
        source_mask: Tensor,
        earlier: tuple[Earlier, Earlier],
        past: Past | None = None,
        first_query: int = 0,
    ) -> Tensor:
        y = self.itself(y, None, mask, earlier[0], past)
        y = self.cross(y, None, source, source_mask, earlier[1], first_query)
        return self.feed_forward(y)


class EncoderDecoderModel(nn.Module):
    def __init__(self, experiment: Experiment) -> None:
        super().__init__()
        model, vocabulary = experiment.model, experiment.dataset.vocabulary_sizes
        assert isinstance(model, EncoderDecoder)
        self.source_embedding = nn.Embedding(vocabulary[0], model.width)
        self.target_embedding = nn.Embedding(vocabulary[1], model.width)
        self.encoder = nn.ModuleList(EncoderLayer(experiment, layer) for layer in range(1, model.layers + 1))
        self.decoder = nn.ModuleList(DecoderLayer(experiment, layer) for layer in range(1, model.layers + 1))
        if model.tied:
            self.output_bias = nn.Parameter(torch.zeros(vocabulary[1]))
        else:
            self.output = nn.Linear(model.width, vocabulary[1])
        self.tied = model.tied
        self.scale, self.dropout = model.width**0.5, model.dropout_embedding
        score = experiment.gate.score
        self.carried = {
            kind: score.name != "none" and kind in score.attention for kind in ("encoder", "decoder", "cross")
        }
        sees_the_future = score.name == "gated" and score.as_printed  # and so has no use for a past
        self.decodes_by_step = not sees_the_future
        self.longest = score.length if score.name == "gated" else None
        self.positions: Tensor
        self.register_buffer("positions", torch.empty(0, model.width), persistent=False)
        initialise_glorot(self, experiment.seed, model.init_embedding)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """source (B, S), target (B, T) -> features (B, T, D); features at t have seen the target up to t."""
        return self.decode(target, self.encode(source))

    def encode(self, source: Tensor) -> Encoded:
        mask = torch.zeros(source.shape, device=source.device).masked_fill(source == PADDING, -torch.inf)
        x, earlier = self._embedded(source, self.source_embedding), self._earlier("encoder")
        encoded = Encoded(x, mask[:, None, None].to(x.dtype))
        for layer in self.encoder:
            x = layer(x, encoded.mask, earlier)
        return encoded._replace(features=x)

    def decode(self, target: Tensor, encoded: Encoded) -> Tensor:
        y, earlier = self._embedded(target, self.target_embedding), (self._earlier("decoder"), self._earlier("cross"))
        length = target.shape[1]
        future = torch.full((length, length), -torch.inf, dtype=y.dtype, device=y.device).triu(1)
        for layer, keys_values in zip(self.decoder, self.keys_values(encoded), strict=True):
            y = layer(y, future, keys_values, encoded.mask, earlier)
        return y

    def keys_values(self, encoded: Encoded) -> list[KeysValues]:
        """What every layer of the decoder reads of the source; the same for all positions of the target."""
        found: list[KeysValues] = []
        for layer in self.decoder:
            assert isinstance(layer, DecoderLayer)
            found.append(layer.cross.function.keys_values(encoded.features))
        return found

    def logits(self, features: Tensor) -> Tensor:  # (..., D) -> (..., V)
        if self.tied:
            return F.linear(features, self.target_embedding.weight, self.output_bias)
        return self.output(features)

    def step(
        self, newest: Tensor, place: int, source: list[KeysValues], source_mask: Tensor, pasts: list[Past]
    ) -> Tensor:
        """newest (B, 1), the target's symbol at `place` -> logits (B, V) of the next one, from what pasts hold."""
        y = self._embedded(newest, self.target_embedding, place)
        earlier = (self._earlier("decoder"), self._earlier("cross"))
        everything = torch.zeros(1, place + 1, dtype=y.dtype, device=y.device)
        for layer, keys_values, past in zip(self.decoder, source, pasts, strict=True):
            y = layer(y, everything, keys_values, source_mask, earlier, past, first_query=place)
        return self.logits(y[:, -1])

    def _earlier(self, kind: str) -> Earlier:
        return [] if kind in self.carried else None

    def _embedded(self, tokens: Tensor, embedding: nn.Embedding, first: int = 0) -> Tensor:
        end = first + tokens.shape[1]
        if self.positions.shape[0] < end:
            self.positions = distance_codes(max(end, 128), self.positions.shape[1]).to(self.positions)
        codes = self.positions[first:end].to(embedding.weight.dtype)
        return dropout(embedding(tokens) * self.scale + codes, self.dropout, self.training)
