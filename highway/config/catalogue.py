"""What exists: models, gates and data sets, and which of them fit together.

Nothing here imports torch, so that a wrong combination is refused in under a second.
To add a gate: write it in highway/gates/, name it here, add conf/gate/<option>.yaml.

A `revision` is raised by hand when a fix changes the numbers that the thing gives; it is part
of a cell's identity, so that corrected cells run anew and reports can mark the older records.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    builder: str  # "module:function", imported only when the model is built
    task: str
    interfaces: frozenset[str]  # which gate interfaces it offers: residual, score, state
    in_words: str  # for someone who has not read the paper
    remembers: str = ""  # how it carries what it has read, so that no gate may look sideways
    revision: int = 1


@dataclass(frozen=True)
class Gate:
    interface: str
    equation: str
    in_words: str
    code: str = "highway/gates/residual.py"
    looks_sideways: bool = False  # reads neighbouring positions
    revision: int = 1


@dataclass(frozen=True)
class Dataset:
    reader: str  # a module with streams(dataset, data_dir, cache_dir), files and verify(dataset, data_dir)
    task: str
    forms: tuple[str, ...]
    extent: str = "files"  # files: the whole data set of the papers; else what reports call it
    revision: int = 1


MODELS = {
    "transformer": Model(
        "highway.models.transformer:TransformerLanguageModel",
        "language",
        frozenset({"residual"}),
        "A Transformer that reads a text from left to right and predicts each next symbol. Every layer has two "
        "sublayers: attention, which gathers from earlier positions, and a feed-forward network, which works on each "
        "position alone. A residual connection adds what a sublayer gives to what it was given.",
    ),
    "transformer_xl": Model(
        "highway.models.transformer_xl:TransformerXLLanguageModel",
        "language",
        frozenset({"residual"}),
        "A Transformer that reads a text segment by segment and keeps a memory: what every layer computed for the "
        "segment before. Attention looks back into that memory, and knows by how far, not at which absolute position. "
        "Every layer has two sublayers, attention and a feed-forward network, each with a residual connection that "
        "adds what the sublayer gives to what it was given.",
        remembers="carries memory across segments",
    ),
    "encoder_decoder": Model(
        "highway.models.encoder_decoder:EncoderDecoderModel",
        "translation",
        frozenset({"residual", "score"}),
        "A Transformer that translates: an encoder reads the whole source, and a decoder writes the target piece by "
        "piece, looking at what it has written and at the encoder's output. Every layer has attention and a "
        "feed-forward network, and a residual connection around each that adds what it gives to what it was given.",
        remembers="decodes from a cache",
    ),
}

GATES = {
    "none": Gate(
        "residual",
        "x + f(x)",
        "The residual connection alone: what a sublayer computes is added to what it was given.",
    ),
    "sdu": Gate(
        "residual",
        "x + f(x) + psi(x W1 + b1) * (x W2 + b2)",
        "A self-dependency unit: beside what the sublayer computes, each position adds something that it computes from "
        "itself alone, a linear map of x whose every component a second map, through psi, lets pass more or less.",
    ),
    "sdu_conv": Gate(
        "residual",
        "x + f(x) + psi(conv1(x) + b1) * (conv2(x) + b2)",
        "A self-dependency unit with two small convolutions in place of the linear maps: each position also sees "
        "the few positions just before it, and far fewer parameters are added.",
        looks_sideways=True,
    ),
    "highway": Gate(
        "residual",
        "(1 - T) * x + T * (x W2 + b2) + f(x),  T = sigmoid(x W1 + b1)",
        "A highway gate on the stream: T decides, component by component, how much of x is carried on as it is and "
        "how much is replaced by a linear map of it; what the sublayer computes is added as usual.",
    ),
    "gated_mhdpa": Gate(
        "residual",
        "x + (1 - T) * f(x) + T * (x W2 + b2),  T = sigmoid(x W1 + b1)",
        "A highway gate on the sublayer: T decides, component by component, how much of what the sublayer computes "
        "is kept and how much is replaced by a linear map of x.",
    ),
    "realformer": Gate(
        "score",
        "softmax(S + P) V,  S = Q K^T / sqrt(d),  P = the S of the last 1, 2 or 3 layers, summed",
        "Attention scores with a residual connection of their own: to how much each position wants to look at each "
        "other, a layer adds what the layers before it wanted.",
        code="highway/gates/scores.py",
    ),
    "gated": Gate(
        "score",
        "softmax(S + P * psi(P W + B)) V,  S = Q K^T / sqrt(d),  P = the S of the last 1, 2 or 3 layers, summed",
        "The same connection with a gate on it: a map over the positions decides, score by score, how much of what the "
        "earlier layers wanted is let through, and with which sign.",
        code="highway/gates/scores.py",
    ),
}

DATASETS = {
    "penn_treebank": Dataset(
        "highway.data.penn_treebank",
        "language",
        ("eos", "newline", "joined", "characters", "word"),
    ),
    "enwik8": Dataset("highway.data.enwik8", "language", ("without_newline", "bytes")),
    "enwik8_excerpt": Dataset("highway.data.enwik8", "language", ("without_newline", "bytes"), extent="excerpt"),
    "iwslt_pt_en": Dataset("highway.data.translation", "translation", ("unigram", "bpe")),
    "pt_en_substitute": Dataset("highway.data.translation", "translation", ("unigram", "bpe"), extent="substitute"),
}

CORPORA = ("tatoeba", "wiki_health", "tico19", "ntrex128", "flores101_devtest", "bible")  # of the substitute

TASK_REVISIONS = {"language": 1, "translation": 1}
TIMING_REVISION = 1
