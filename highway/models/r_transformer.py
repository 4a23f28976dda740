"""R-Transformer (Wang et al., 2019), section 3, with the gates of Highway Transformer on attention and feed-forward.

    post-norm   H = LN(X + LocalRNN(X))           Eqs. 3, 8
                U = LN(gate(H, Att(H)))           Eqs. 4, 8
                O = LN(gate(U, FFN(U)))           Eqs. 7, 8
    pre-norm    H = X + LocalRNN(LN X)            as in the released code, with no norm after the
                U = gate(H, Att(LN H))            last block; before a segment, LN X is zero, not X
                O = gate(U, FFN(LN U))

There are no position codes, and no state is carried from segment to segment. A block may have several LocalRNNs, each
with a residual connection and weights of its own, and none of them has a gate. They start independently or, as in the
released code, as copies of one; so do the maps of attention.
"""

from torch import Tensor, nn

from highway.blocks.layers import LayerNorm, Sublayer
from highway.blocks.local_rnn import LocalRNN
from highway.cards.models import RTransformer
from highway.config.experiment import Gating
from highway.models.backbone import Backbone
from highway.models.initial import LikeTorch
from highway.models.transformer import Block, final_norm


class RBlock(Block):
    def __init__(self, model: RTransformer, gating: Gating, layer: int) -> None:
        super().__init__(model, gating, layer)
        rnns = [LocalRNN(model.width, model.cell, model.window) for _ in range(model.local_layers)]
        if model.init_local == "copies":
            for rnn in rnns[1:]:
                rnn.start_as(rnns[0])
        self.local = nn.ModuleList(
            Sublayer(
                rnn,
                gating,
                layer,
                None,
                model.width,
                LayerNorm(model.width, model.norm_deviation),
                model.norm,
                model.dropout,
            )
            for rnn in rnns
        )

    def forward(self, x: Tensor) -> Tensor:
        for local in self.local:
            x = local(x)
        return super().forward(x)


class RTransformerBackbone(Backbone):
    def __init__(self, model: RTransformer, gating: Gating) -> None:
        super().__init__()
        self.family = LikeTorch(model.init_embedding, model.init_embedding_as, model.init_maps)
        self.blocks = nn.ModuleList(RBlock(model, gating, layer) for layer in range(1, model.layers + 1))
        self.norm = final_norm(model)

    def forward(self, x: Tensor, state: None = None) -> tuple[Tensor, None]:
        """Compute features (B, T, D) from x (B, T, D); an R-Transformer carries no state."""
        for block in self.blocks:
            x = block(x)
        return self.norm(x), None
