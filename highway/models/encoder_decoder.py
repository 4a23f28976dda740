"""The encoder-decoder Transformer of Gated ResNet Transformer (Mahde and Hassan), sections III and V.

    source   X = drop(x + PE)          U = LN(gate(X, Att(X)))                              encoder, each layer
                                       O = LN(gate(U, FFN(U)))
    target   Y = drop(y + PE)          V = LN(gate(Y, Att(Y)))   with a causal mask         decoder, each layer
                                       W = LN(gate(V, Att(V, encoder's O)))
                                       Z = LN(gate(W, FFN(W)))

Post-norm as in the paper's code, or pre-norm without final norms. The scores of an attention may read those of the same
kind of attention in earlier layers (highway/gates/scores.py). Without a residual gate, `gate` is x + f
(highway/gates/residual.py).

Shapes: B sentences, S source positions, T target positions, D width.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from highway.blocks.layers import FeedForward, LayerNorm, Sublayer, distance_codes, dropout
from highway.blocks.scored_attention import CrossAttention, Earlier, KeysValues, Past, SelfAttention
from highway.cards.models import EncoderDecoder
from highway.config.experiment import Gating
from highway.describe import gates_of
from highway.gates.scores import score_gate
from highway.models.initial import Glorot


class Encoded(NamedTuple):
    """A source as the encoder leaves it."""

    features: Tensor  # (B, S, D)
    mask: Tensor  # (B, 1, 1, S): minus infinity where the source is padding, else 0


class Layer(nn.Module):
    """The base of encoder and decoder layers, which builds their sublayers."""

    def __init__(self, model: EncoderDecoder, gating: Gating, layer: int) -> None:
        super().__init__()
        self.model, self.gating, self.layer = model, gating, layer

    def attention(self, kind: type[SelfAttention] | type[CrossAttention], where: str) -> Sublayer:
        model, score = self.model, self.gating.options.score
        gate = score_gate(score, self.layer if where in score.attention else 1, model.heads)
        function = kind(model.width, model.heads, model.head_width, model.dropout_attention, gate)
        return self.sublayer(function, "attention", model.dropout_attention_output)

    def sublayer(self, function: nn.Module, location: str, rate: float) -> Sublayer:
        model, norm = self.model, LayerNorm(self.model.width, "biased", self.model.norm_epsilon)
        return Sublayer(function, self.gating, self.layer, location, model.width, norm, model.norm, rate)

    def feed_forward_sublayer(self) -> Sublayer:
        model = self.model
        function = FeedForward(model.width, model.feed_forward, model.dropout_feed_forward)
        return self.sublayer(function, "feed_forward", model.dropout)


class EncoderLayer(Layer):
    def __init__(self, model: EncoderDecoder, gating: Gating, layer: int) -> None:
        super().__init__(model, gating, layer)
        self.itself = self.attention(SelfAttention, "encoder")
        self.feed_forward = self.feed_forward_sublayer()

    def forward(self, x: Tensor, mask: Tensor, earlier: Earlier) -> Tensor:
        return self.feed_forward(self.itself(x, None, mask, earlier))


class DecoderLayer(Layer):
    def __init__(self, model: EncoderDecoder, gating: Gating, layer: int) -> None:
        super().__init__(model, gating, layer)
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


class EncoderDecoderBackbone(nn.Module):
    """A backbone over the vectors of a source and a target; attention masks the padding of the source."""

    def __init__(self, model: EncoderDecoder, gating: Gating) -> None:
        super().__init__()
        self.family = Glorot(model.init_embedding)
        self.encoder = nn.ModuleList(EncoderLayer(model, gating, layer) for layer in range(1, model.layers + 1))
        self.decoder = nn.ModuleList(DecoderLayer(model, gating, layer) for layer in range(1, model.layers + 1))
        self.dropout = model.dropout_embedding
        gates = gates_of(self).values()
        self.decodes_by_step = not any(getattr(gate, "reads_the_future", False) for gate in gates)
        self.longest = min((gate.length for gate in gates if hasattr(gate, "length")), default=None)
        self.positions: Tensor
        self.register_buffer("positions", torch.empty(0, model.width), persistent=False)

    def encode(self, x: Tensor, padding: Tensor) -> Encoded:
        """Encode the source x (B, S, D); padding (B, S) is True where a position is padding."""
        mask = torch.zeros(padding.shape, device=x.device).masked_fill(padding, -torch.inf)
        x = self._placed(x)
        earlier: Earlier = []
        encoded = Encoded(x, mask[:, None, None].to(x.dtype))
        for layer in self.encoder:
            x = layer(x, encoded.mask, earlier)
        return encoded._replace(features=x)

    def decode(self, y: Tensor, encoded: Encoded) -> Tensor:
        """Compute features (B, T, D) from the target y (B, T, D) and the encoded source."""
        y = self._placed(y)
        earlier: tuple[Earlier, Earlier] = ([], [])  # self-attention's, cross-attention's
        length = y.shape[1]
        future = torch.full((length, length), -torch.inf, dtype=y.dtype, device=y.device).triu(1)
        for layer, keys_values in zip(self.decoder, self.keys_values(encoded), strict=True):
            y = layer(y, future, keys_values, encoded.mask, earlier)
        return y

    def keys_values(self, encoded: Encoded) -> list[KeysValues]:
        """Return the cross-attention keys and values of every decoder layer, the same for all target positions."""
        projected: list[KeysValues] = []
        for layer in self.decoder:
            assert isinstance(layer, DecoderLayer)
            projected.append(layer.cross.function.keys_values(encoded.features))
        return projected

    def step(
        self, y: Tensor, position: int, source: list[KeysValues], source_mask: Tensor, pasts: list[Past]
    ) -> Tensor:
        """Compute features (B, 1, D) from y (B, 1, D) at `position`, and add the position to pasts.

        pasts: the keys and values of all earlier positions, for each layer.
        """
        y = self._placed(y, position)
        earlier: tuple[Earlier, Earlier] = ([], [])
        everything = torch.zeros(1, position + 1, dtype=y.dtype, device=y.device)
        for layer, keys_values, past in zip(self.decoder, source, pasts, strict=True):
            y = layer(y, everything, keys_values, source_mask, earlier, past, first_query=position)
        return y

    def _placed(self, x: Tensor, first: int = 0) -> Tensor:
        end = first + x.shape[1]
        if self.positions.shape[0] < end:
            self.positions = distance_codes(max(end, 128), self.positions.shape[1]).to(self.positions)
        codes = self.positions[first:end].to(x.dtype)
        return dropout(x + codes, self.dropout, self.training)
