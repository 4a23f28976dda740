"""The cards of all models, and the keys of the group `model`.

A model is a backbone between input and output layers ("ends"). The backbone works on vectors and knows no task; the
task chooses the ends. `model` has the keys of both. A new backbone is one file in highway/models/, one card here and
one file in conf/model/; its keys with their defaults go to tests/fixtures/neutral.yaml (docs/RECIPES.md).
"""

from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from pydantic.dataclasses import dataclass

from highway.cards.card import Cards
from highway.errors import Refused
from highway.keys.schema import STRICT, Written, choice, key, number, rate

SUBLAYERS = ("attention", "feed_forward")
DEEPEST = 1000
WIDTH = "width of the vectors between the layers"
LAYERS = "blocks, each of attention and a feed-forward layer"
HEADS = "attention heads"
FEED_FORWARD = "inner width of the feed-forward layer"
HAS_BOUND = {"init_maps": ("torch", "embedding")}  # Glorot's draws need no init_embedding


class Remembers(StrEnum):
    """The part of the preceding text from which a backbone can continue."""

    NOTHING = "nothing"
    MEMORY = "a memory of segments before"  # its length: dataset.<train|evaluation>.memory
    STATE = "a state that is carried from step to step"
    CACHE = "what it has decoded before"


@dataclass(frozen=True, config=STRICT)
class ModelCard:
    """A backbone: its keys and code, the locations of its gates, and what it can be timed beside."""

    options: type[Written]  # the keys below `model`
    code: str  # "module:class" of the backbone, built from (options, gating)
    description: str  # for someone who has not read the paper
    locations: dict[str, tuple[str, ...]] = field(default_factory=dict)  # interface of gates -> locations in the model
    remembers: Remembers = Remembers.NOTHING
    reads: str = "sequence"  # or "pair": a source and a target
    rivals: tuple[str, ...] = ()  # public implementations that are timed beside it (scripts/contenders.py)
    timed: tuple[str, ...] = ()  # options of the group `gate` that are timed beside it
    revision: int = 1


class Options(Written):
    """The keys of a model. The input and output layers read `width_in`, `width_out` and `tied` of every model.

    Of a model that has them, they also read the keys scale_embedding, dropout_embedding and dropout_embedding_words.
    """

    if TYPE_CHECKING:
        width: int  # every model has this key, with a default of its own

    tied: bool = key(True, "true: a language model's output map is its embedding; false: a map of its own, drawn alike")

    @property
    def width_in(self) -> int:
        """The width of the vectors that the backbone reads."""
        return self.width

    @property
    def width_out(self) -> int:
        """The width of the vectors that the backbone returns."""
        return self.width


def check_heads(width: int, heads: int) -> None:
    if width % heads:
        raise Refused(f"model.width={width} is not a multiple of model.heads={heads}.")


def check_even(width: int) -> None:
    if width % 2:
        raise Refused(f"model.width={width} is odd, but sinusoidal positions need an even width.")


class Blocks(Options):
    """The keys of models that are built of a Transformer's blocks."""

    width: int = number(512, 1, description=WIDTH)
    layers: int = number(3, 1, DEEPEST, description=LAYERS)
    heads: int = number(8, 1, description=HEADS)
    feed_forward: int = number(2048, 1, description=FEED_FORWARD)
    norm: str = choice(
        "pre", "post", description="pre: x + f(LN x), as the R-Transformer code; post: LN(x + f(x)), Eqs. 7-9"
    )
    norm_deviation: str = choice(
        "unbiased", "biased", description="unbiased (n - 1), as the R-Transformer code; biased, as torch.nn.LayerNorm"
    )
    final_norm: bool = key(
        False, "true: a norm after the last block, as Harvard's annotated Transformer", read_when={"norm": ("pre",)}
    )
    dropout: float = rate("on each sublayer's output; on its gate only with gate.inside_dropout")
    dropout_attention: float = rate("on the attention probabilities")
    dropout_feed_forward: float = rate("inside the feed-forward layer")
    dropout_embedding: float = rate("on the embedding, before positions are added")
    scale_embedding: bool = key(False, "multiply the embedding by sqrt(width); Eq. 6 of the paper does not")
    init_embedding: float = number(
        0.1, 1e-9, 10, description="embeddings start at U(-this, this), or at N(0, this)", read_when=HAS_BOUND
    )
    init_embedding_as: str = choice(
        "uniform", "normal", description="distribution of init_embedding", read_when=HAS_BOUND
    )
    init_maps: str = choice(
        "torch",
        "embedding",
        "glorot",
        description="how maps start (a LocalRNN: torch); embedding: as embeddings, their biases at 0, as the appendix; "
        "glorot: Glorot's uniform, embeddings too, as Harvard's annotated Transformer",
    )
    init_attention: str = choice(
        "independent",
        "copies",
        description="how the query, key, value and output maps start; copies: of one map, as the R-Transformer code",
        read_when={"init_maps": ("torch",)},
    )

    def check(self) -> None:
        check_heads(self.width, self.heads)


class Transformer(Blocks):
    name: str = "transformer"
    dropout_positions: float = rate("on the sum of embedding and positions, after dropout_embedding")

    def check(self) -> None:
        super().check()
        check_even(self.width)


class RTransformer(Blocks):
    name: str = "r_transformer"
    cell: str = choice("gru", "lstm", "rnn", description="recurrent cell of the LocalRNN")
    window: int = number(7, 1, description="positions that a LocalRNN reads for each position, itself included")
    local_layers: int = number(1, 0, DEEPEST, description="LocalRNN sublayers in each block")
    init_local: str = choice(
        "independent",
        "copies",
        description="how the LocalRNNs of a block start; copies: all equal to the first, as the R-Transformer code",
    )

    def unread(self) -> set[str]:
        """Return the keys without an effect: with one LocalRNN there is none to be equal to the first."""
        return {"init_local"} if self.local_layers < 2 else set()


class Recurrent(Options):
    name: str = "recurrent"
    cell: str = choice("lstm", "gru", "rnn", description="recurrent cell")
    width: int = number(256, 1, description=WIDTH)
    layers: int = number(1, 1, DEEPEST, description="recurrent layers on top of one another")
    input: int | None = number(None, 1, description="width of the input vectors; null: model.width")
    dropout: float = rate("on the output of each layer")
    dropout_embedding: float = rate("on the embedding")
    init_embedding: float = number(0.1, 1e-9, 10, description="embeddings start at U(-this, this)")

    @property
    def width_in(self) -> int:
        return self.input or self.width


class RHN(Options):
    name: str = "rhn"
    width: int = number(830, 1, description="width of the state")
    depth: int = number(10, 1, DEEPEST, description="micro-layers in a step")
    layers: int = number(
        1, 1, DEEPEST, description="recurrent layers on top of one another, each with `depth` micro-layers"
    )
    coupled: bool = key(True, "true: c = 1 - t; false: a third map computes c")
    bias: float = number(-2.0, -50, 50, description="initial bias of t; without coupling, c starts at its opposite")
    dropout_embedding_words: float = rate(
        "on whole vectors of the embedding: a window drops a word everywhere or nowhere"
    )
    dropout_input: float = rate("on the input of each layer, one mask a window")
    dropout_state: float = rate(
        "on the state as the matrices read it, one mask a window; never on the state carried to the next step"
    )
    dropout_output: float = rate("on the output of the last layer, one mask a window")
    init: float = number(
        0.04, 1e-9, 10, description="all parameters except the biases of t and c start at U(-this, this)"
    )


class TCN(Options):
    name: str = "tcn"
    width: int = number(450, 1, description="channels")
    layers: int = number(3, 1, 24, description="residual blocks of two convolutions; dilation 1, 2, 4, ...")
    kernel: int = number(3, 2, description="positions that a convolution reads")
    input: int | None = number(None, 1, description="width of the input vectors; null: model.width")
    output: int | None = number(None, 1, description="channels of the last block; null: model.width")
    dropout: float = rate("after each convolution")
    dropout_embedding: float = rate("on the embedding")
    init_embedding: float = number(0.1, 1e-9, 10, description="embeddings start at U(-this, this), or at N(0, this)")
    init_embedding_as: str = choice("uniform", "normal", description="distribution of init_embedding")

    @property
    def width_in(self) -> int:
        return self.input or self.width

    @property
    def width_out(self) -> int:
        return self.output or self.width


class TransformerXL(Options):
    name: str = "transformer_xl"
    width: int = number(512, 1, description=WIDTH)
    layers: int = number(6, 1, DEEPEST, description=LAYERS)
    heads: int = number(8, 1, description=HEADS)
    head_width: int = number(64, 1, description="width of one head")
    feed_forward: int = number(2048, 1, description=FEED_FORWARD)
    norm: str = choice("post", "pre", description="post: LN(x + f(x)); pre: x + f(LN x), no final norm")
    dropout: float = rate("embedding, positions, attention output, inside and after the feed-forward layer, features")
    dropout_attention: float = rate("on the attention probabilities")
    init_deviation: float = number(
        0.02,
        1e-9,
        10,
        description="N(0, this) for weights and embeddings, N(1, this) for gains (the paper says N(0, 1))",
    )

    scale_embedding: ClassVar[bool] = (
        True  # no key: the ends always scale; the backbone applies the dropout of the embedding
    )

    def check(self) -> None:
        check_even(self.width)


class EncoderDecoder(Written):
    name: str = "encoder_decoder"
    width: int = number(256, 1, description=WIDTH)
    layers: int = number(4, 1, DEEPEST, description="layers of the encoder, and as many of the decoder")
    heads: int = number(6, 1, description=HEADS)
    key_width: int | None = number(None, 1, description="width of one head; null: width // heads")
    feed_forward: int = number(2048, 1, description=FEED_FORWARD)
    norm: str = choice(
        "post",
        "pre",
        description="post: LN(x + f(x)), as the tutorial that the paper builds on; pre: x + f(LN x), no final norms",
    )
    norm_epsilon: float = number(1e-5, 0, 1, description="added to the variance in layer normalisation")
    dropout: float = rate("on the feed-forward sublayer's output")
    dropout_attention: float = rate("on the attention probabilities")
    dropout_attention_output: float = rate("on the attention sublayers' output")
    dropout_feed_forward: float = rate("inside the feed-forward layer")
    dropout_embedding: float = rate("after the positions are added")
    tied: bool = key(False, "the output map is the target's embedding")
    init_embedding: float = number(
        0.05, 1e-9, 10, description="embeddings start at U(-this, this); maps are Glorot-uniform"
    )

    @property
    def head_width(self) -> int:
        return self.key_width or self.width // self.heads

    def check(self) -> None:
        check_even(self.width)
        if self.key_width is None and self.width < self.heads:
            raise Refused(
                f"model.width={self.width} is too small for model.heads={self.heads}: "
                "each head needs at least one unit."
            )


OURS = {
    "transformer": ModelCard(
        Transformer,
        "highway.models.transformer:TransformerBackbone",
        "A Transformer that reads a text from left to right and predicts each next symbol. Every layer has two "
        "sublayers: attention, which gathers from earlier positions, and a feed-forward network, which works on each "
        "position alone. A residual connection adds the output of a sublayer to its input.",
        locations={"residual": SUBLAYERS},
        rivals=("torch.nn.TransformerEncoder", "x-transformers"),
        timed=("sdu_tanh",),
    ),
    "r_transformer": ModelCard(
        RTransformer,
        "highway.models.r_transformer:RTransformerBackbone",
        "A Transformer with a small recurrent network in front of each block's attention, which encodes the order of "
        "positions. For each position it reads the last few positions afresh. Attention gathers from all earlier "
        "positions, and a feed-forward network works on each position alone. A residual connection adds the output of "
        "each sublayer to its input.",
        locations={"residual": SUBLAYERS},
        rivals=("R-Transformer on gathered windows",),
        timed=("sdu_tanh",),
    ),
    "recurrent": ModelCard(
        Recurrent,
        "highway.models.recurrent:RecurrentBackbone",
        "A recurrent network: it reads position by position. All that it keeps of earlier positions is a state of "
        "fixed size, which every step computes from the previous state and the new input.",
        locations={"state": ("h",)},
        remembers=Remembers.STATE,
    ),
    "rhn": ModelCard(
        RHN,
        "highway.models.rhn:RHNBackbone",
        "A recurrent highway network: a recurrent network whose step from one position to the next is itself a deep "
        "network. Each of its micro-layers keeps most of the state, and a gate decides, component by component, how "
        "much of it is computed afresh.",
        locations={"state": ("s",)},
        remembers=Remembers.STATE,
        rivals=("plain loop",),
        timed=("hsg",),
    ),
    "tcn": ModelCard(
        TCN,
        "highway.models.tcn:TCNBackbone",
        "A convolutional network over time: every layer reads a few positions, each layer twice as far apart as the "
        "layer below. The last layer therefore reads far back without a step-by-step pass.",
        rivals=("pytorch-tcn",),
    ),
    "transformer_xl": ModelCard(
        TransformerXL,
        "highway.models.transformer_xl:TransformerXLBackbone",
        "A Transformer that reads a text segment by segment and keeps a memory of what every layer computed for "
        "earlier segments. Attention reads that memory by relative distances, not by absolute positions. Every layer "
        "has two sublayers, attention and a feed-forward network, each with a residual connection that adds the "
        "sublayer's output to its input.",
        locations={"residual": SUBLAYERS},
        remembers=Remembers.MEMORY,
        rivals=("TransfoXLLMHeadModel", "x-transformers with memory"),
        timed=("sdu_tanh",),
    ),
    "encoder_decoder": ModelCard(
        EncoderDecoder,
        "highway.models.encoder_decoder:EncoderDecoderBackbone",
        "A Transformer that translates: an encoder reads the whole source, and a decoder writes the target piece by "
        "piece. It attends to the pieces it has written and to the encoder's output. Every layer has attention and a "
        "feed-forward network, each with a residual connection that adds its output to its input.",
        locations={"residual": SUBLAYERS, "score": ("encoder", "decoder", "cross")},
        remembers=Remembers.CACHE,
        reads="pair",
        rivals=("torch.nn.Transformer",),
        timed=("realformer", "g1"),
    ),
}
MODELS = Cards("model", OURS)
