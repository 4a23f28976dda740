"""The Transformer of Highway Transformer (Chai et al., 2020), sections 2.1-2.2 and 3.

    X = x + PE                                      Eq. 6
    post-norm   U = LN(gate(X, Att(X)))             Eqs. 7, 23
                O = LN(gate(U, FFN(U)))             Eqs. 9, 24
    pre-norm    U = gate(X, Att(LN X))              as in R-Transformer's code, from which the PTB
                O = gate(U, FFN(LN U))              numbers come; no norm after the last block

Without a gate, gate(x, f) is x + f; highway/gates/residual.py has the others.
"""

import torch
from torch import Tensor, nn

from highway.blocks.attention import CausalAttention
from highway.blocks.layers import FeedForward, LayerNorm, Sublayer
from highway.blocks.positions import sinusoids
from highway.config.experiment import Gating
from highway.config.models import Transformer
from highway.models.backbone import Backbone
from highway.models.initial import LikeTorch


class Block(nn.Module):
    def __init__(self, model: Transformer, gating: Gating, layer: int) -> None:
        super().__init__()

        def sublayer(function: nn.Module, location: str) -> Sublayer:
            norm = LayerNorm(model.width, model.norm_deviation)
            return Sublayer(function, gating, layer, location, model.width, norm, model.norm, model.dropout)

        attention = CausalAttention(model.width, model.heads, model.dropout_attention, model.init_attention)
        feed_forward = FeedForward(model.width, model.feed_forward, model.dropout_feed_forward)
        self.attention = sublayer(attention, "attention")
        self.feed_forward = sublayer(feed_forward, "feed_forward")

    def forward(self, x: Tensor) -> Tensor:
        return self.feed_forward(self.attention(x))


class TransformerBackbone(Backbone):
    def __init__(self, model: Transformer, gating: Gating) -> None:
        super().__init__()
        self.family = LikeTorch(model.init_embedding, model.init_embedding_as)
        self.positions: Tensor
        self.register_buffer("positions", torch.empty(0, model.width), persistent=False)
        self.blocks = nn.ModuleList(Block(model, gating, layer) for layer in range(1, model.layers + 1))

    def forward(self, x: Tensor, state: None = None) -> tuple[Tensor, None]:
        """Compute features (B, T, D) from x (B, T, D); a Transformer carries no state."""
        x = x + self._positions(x.shape[1]).to(x)
        for block in self.blocks:
            x = block(x)
        return x, None

    def _positions(self, length: int) -> Tensor:
        if self.positions.shape[0] < length:
            self.positions = sinusoids(length, self.positions.shape[1]).to(self.positions)
        return self.positions[:length]
