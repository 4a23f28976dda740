"""The schema: every key that a configuration may have, with its type, its neutral default and its bounds.

The defaults here are frozen (highway/sweep/schema_defaults.yaml): a cell's identity is what differs
from them, so a key added later at a neutral default changes no identity.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from highway.config import catalogue, layers
from highway.errors import Refused, listing


def number(default: Any, low: float, high: float = float("inf")) -> Any:
    return field(default=default, metadata={"low": low, "high": high})


def choice(default: str, *others: str) -> Any:
    return field(default=default, metadata={"options": (default, *others)})


@dataclass
class Transformer:
    name: str = "transformer"
    width: int = number(512, 1)
    layers: int = number(3, 1)
    heads: int = number(8, 1)
    feed_forward: int = number(2048, 1)
    norm: str = choice("pre", "post")
    norm_deviation: str = choice("unbiased", "biased")
    dropout: float = number(0.0, 0, 0.999)
    dropout_attention: float = number(0.0, 0, 0.999)
    dropout_feed_forward: float = number(0.0, 0, 0.999)
    dropout_embedding: float = number(0.0, 0, 0.999)
    scale_embedding: bool = False
    init_embedding: float = number(0.1, 1e-9, 10)

    def check(self) -> None:
        if self.width % self.heads:
            raise Refused(f"model.width={self.width} is not a multiple of model.heads={self.heads}.")
        if self.width % 2:
            raise Refused(f"model.width={self.width} is odd; sinusoidal positions need an even width.")


@dataclass
class TransformerXL:
    name: str = "transformer_xl"
    width: int = number(512, 1)
    layers: int = number(6, 1)
    heads: int = number(8, 1)
    head_width: int = number(64, 1)
    feed_forward: int = number(2048, 1)
    norm: str = choice("post", "pre")
    dropout: float = number(0.0, 0, 0.999)
    dropout_attention: float = number(0.0, 0, 0.999)
    init_deviation: float = number(0.02, 1e-9, 10)

    def check(self) -> None:
        if self.width % 2:
            raise Refused(f"model.width={self.width} is odd; sinusoidal positions need an even width.")


@dataclass
class EncoderDecoder:
    name: str = "encoder_decoder"
    width: int = number(256, 1)
    layers: int = number(4, 1)  # of the encoder, and as many of the decoder
    heads: int = number(6, 1)
    key_width: int | None = number(None, 1)  # of one head; none: width // heads
    feed_forward: int = number(2048, 1)
    norm: str = choice("post", "pre")
    norm_epsilon: float = number(1e-5, 0, 1)
    dropout: float = number(0.0, 0, 0.999)  # on the feed-forward sublayer's output
    dropout_attention: float = number(0.0, 0, 0.999)
    dropout_attention_output: float = number(0.0, 0, 0.999)
    dropout_feed_forward: float = number(0.0, 0, 0.999)
    dropout_embedding: float = number(0.0, 0, 0.999)
    tied: bool = False  # the output map is the target's embedding
    init_embedding: float = number(0.05, 1e-9, 10)

    @property
    def head_width(self) -> int:
        return self.key_width or self.width // self.heads

    def check(self) -> None:
        if self.width % 2:
            raise Refused(f"model.width={self.width} is odd; sinusoidal positions need an even width.")
        if self.key_width is None and self.width < self.heads:
            raise Refused(f"model.width={self.width} leaves nothing for each of model.heads={self.heads}.")


Model = Transformer | TransformerXL | EncoderDecoder


@dataclass
class ScoreGate:
    """What attention scores take from those of earlier layers (highway/gates/scores.py)."""

    name: str = choice("none", "realformer", "gated")
    predecessors: int = number(1, 1)  # how many earlier layers, where there are as many
    accumulated: bool = False  # all of them
    activation: str = choice("tanh", "sigmoid")
    per_head: bool = False  # gated: W and B for each head; else one pair for all
    each: bool = False  # gated: W and B for each predecessor; else one pair for their sum
    length: int = number(64, 1)  # gated: W and B are length x length
    as_printed: bool = False  # gated: the formula as the paper has it, which reads the future
    attention: list[str] = field(default_factory=lambda: ["encoder", "decoder", "cross"])

    def check(self) -> None:
        wrong = [name for name in self.attention if name not in ("encoder", "decoder", "cross")]
        if wrong:
            raise Refused(f"gate.score.attention={wrong[0]} is unknown; it takes encoder, decoder, cross.")


@dataclass
class Gate:
    residual: str = choice("none", "sdu", "sdu_conv", "highway", "gated_mhdpa")
    activation: str = choice("sigmoid", "tanh")
    reads: str = choice("stream", "normalised")  # what the gate reads where f reads the normalised x
    kernel: int = number(3, 1)  # sdu_conv: positions that one output sees, itself included
    score: ScoreGate = field(default_factory=ScoreGate)


@dataclass
class Layers:
    attention: Any = "none"
    feed_forward: Any = "none"
    as_released: bool = False  # as the released Transformer-XL code has it: only the layers before the first gap


@dataclass
class Vocabulary:
    files: int = number(1, 1)
    sample: int = number(1, 1)


@dataclass
class Cut:
    """How a stream is read: parallel lanes, a window walking over them, the scored tail of each."""

    lanes: int = number(1, 1)
    window: int = number(1, 1)
    stride: int = number(1, 1)
    scored: int = number(1, 1)
    memory: int = number(0, 0)  # positions before the window that a model with memory attends to
    clamp: int | None = number(None, 1)  # relative distances beyond this one count as this one
    same_length: bool = False  # every position sees exactly `memory` positions, itself included


@dataclass
class Dataset:
    name: str = choice("penn_treebank", "enwik8", "enwik8_excerpt")
    form: str = "eos"
    source: str = choice("files", "sample")
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    metric: str = choice("bpc", "ppl")
    train: Cut = field(default_factory=Cut)
    evaluation: Cut = field(default_factory=Cut)
    carry_state: bool = False

    @property
    def vocabulary_size(self) -> int:
        return self.vocabulary.files if self.source == "files" else self.vocabulary.sample

    @property
    def vocabulary_sizes(self) -> tuple[int, ...]:
        return (self.vocabulary_size,)

    def check(self) -> None:
        known = catalogue.DATASETS[self.name]
        if self.form not in known.forms:
            raise Refused(
                f"dataset.form={self.form} does not exist for {self.name}; it has {listing(list(known.forms))}."
            )
        for name, cut in (("train", self.train), ("evaluation", self.evaluation)):
            if cut.scored > cut.window:
                raise Refused(f"dataset.{name}.scored={cut.scored} is longer than the window of {cut.window}.")
            if cut.stride > cut.scored:
                raise Refused(
                    f"dataset.{name}.stride={cut.stride} is longer than scored={cut.scored}: symbols would be skipped."
                )
            if cut.memory and not self.carry_state:
                raise Refused(f"dataset.{name}.memory={cut.memory} needs dataset.carry_state=true.")
            if cut.same_length and not cut.memory:
                raise Refused(f"dataset.{name}.same_length=true needs dataset.{name}.memory above 0.")
            if self.carry_state and not cut.window == cut.stride == cut.scored:
                raise Refused(
                    f"dataset.carry_state=true reads a stream without overlap: set dataset.{name}'s window, "
                    f"stride and scored to the same length (they are {cut.window}, {cut.stride}, {cut.scored})."
                )


@dataclass
class Pieces:
    """How many pieces the vocabularies of source and target have, the four special ones included."""

    files: list[int] = field(default_factory=lambda: [8000, 8000])
    sample: list[int] = field(default_factory=lambda: [200, 200])


@dataclass
class TranslationDataset:
    name: str = choice("iwslt_pt_en", "pt_en_substitute")
    form: str = "unigram"  # of sentencepiece
    source: str = choice("files", "sample")
    pieces: Pieces = field(default_factory=Pieces)
    corpora: list[str] = field(default_factory=list)  # which parts of the substitute are trained on
    longest_words: int = number(50, 1)  # longer training pairs are left out
    longest: int = number(64, 3)  # in pieces, start and end included: of training pairs; others are cut there
    batch: int = number(64, 1)  # sentences
    batch_pieces: int | None = number(None, 1)  # instead: batches of so many target pieces, padding included
    timed_sentences: int = number(0, 0)  # translated one by one after training, as the paper measures inference
    metric: str = "accuracy"

    @property
    def vocabulary_sizes(self) -> tuple[int, int]:
        source, target = self.pieces.files if self.source == "files" else self.pieces.sample
        return source, target

    def check(self) -> None:
        known = catalogue.DATASETS[self.name]
        if self.form not in known.forms:
            raise Refused(
                f"dataset.form={self.form} does not exist for {self.name}; it has {listing(list(known.forms))}."
            )
        for name in ("files", "sample"):
            if len(getattr(self.pieces, name)) != 2:
                raise Refused(f"dataset.pieces.{name} takes two numbers, for source and target.")
        wrong = [name for name in self.corpora if name not in catalogue.CORPORA]
        if wrong:
            raise Refused(f"dataset.corpora names {wrong[0]}; there is {listing(list(catalogue.CORPORA))}.")
        if self.batch_pieces is not None and self.batch_pieces < self.longest:
            raise Refused(f"dataset.batch_pieces={self.batch_pieces} holds no sentence of {self.longest} pieces.")


@dataclass
class Plateau:
    """After epoch `after_epoch`: divide lr when the validation loss is above the worst of the last `window`."""

    after_epoch: int = number(5, 0)
    window: int = number(3, 1)
    divide_by: float = number(10.0, 1)
    strict: bool = True  # true: above; false: above or equal


@dataclass
class Optimizer:
    name: str = choice("sgd", "adam")
    lr: float = number(1.0, 0)
    betas: list[float] = field(default_factory=lambda: [0.9, 0.999])
    epsilon: float = number(1e-8, 0)
    clip: float | None = number(None, 0)
    schedule: str = choice("constant", "plateau", "cosine", "inverse_square_root")
    warmup_steps: int = number(0, 0)
    label_smoothing: float = number(0.0, 0, 0.999)
    plateau: Plateau = field(default_factory=Plateau)

    def check(self) -> None:
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise Refused(f"optimizer.betas takes two numbers in [0, 1); it is {list(self.betas)}.")
        if self.schedule == "inverse_square_root" and self.warmup_steps == 0:
            raise Refused("optimizer.schedule=inverse_square_root needs optimizer.warmup_steps above 0.")


@dataclass
class Trainer:
    max_epochs: int = number(1, 1)
    max_steps: int | None = number(None, 1)
    validate_every: int | None = number(None, 1)
    precision: str = choice("32", "bf16", "64")
    accelerator: str = choice("auto", "cpu", "gpu")
    devices: int = number(1, 1)
    threads: int | None = number(None, 1)
    compile: bool = False
    evaluation_batch: int = number(16, 1)
    checkpoint_seconds: float = number(60.0, 0)
    log_every: int = number(50, 1)
    diverged_above: float = number(50.0, 0)


@dataclass
class Logger:
    wandb: str | None = None
    project: str = "highway"
    group: str | None = None  # a sweep sets these two: the table, and the row with its seed
    run: str | None = None

    def check(self) -> None:
        if self.wandb not in (None, "offline", "online"):
            raise Refused(f"logger.wandb={self.wandb} is unknown; it takes null, offline or online.")


@dataclass
class Debug:
    """Ways of looking into a run. All but `trace` go to outputs/debug, begin anew each time, and are never a result."""

    trace: bool = False  # the stack trace beside the sentence
    steps: int | None = number(None, 1)  # only so many updates
    windows: int | None = number(None, 1)  # only so many windows of validation and test
    overfit: bool = False  # the first batch again and again, for training, validation and test
    profile: bool = False  # torch.profiler: a trace, and a table of the slowest operations
    anomaly: bool = False  # names the operation whose gradient is not a number

    @property
    def scratch(self) -> bool:
        return bool(self.steps or self.windows or self.overfit or self.profile or self.anomaly)


@dataclass
class Experiment:
    """One run, checked. What `highway.train.run` needs and nothing that Hydra left behind."""

    model: Model
    gate: Gate
    layers: Layers
    dataset: Any  # a Dataset or a TranslationDataset, as the model's task has it
    optimizer: Optimizer
    trainer: Trainer
    logger: Logger
    debug: Debug
    budget: str
    seed: int
    data_dir: Path
    outputs_dir: Path

    @property
    def task(self) -> str:
        return catalogue.MODELS[self.model.name].task

    @property
    def metric(self) -> str:
        """What is shown beside the loss: bpc, ppl or accuracy."""
        return self.dataset.metric

    def gated(self, sublayer: str) -> tuple[int, ...]:
        """The layers (from 1) whose `attention` or `feed_forward` sublayer has a gate."""
        if self.gate.residual == "none":
            return ()
        chosen = layers.selected(getattr(self.layers, sublayer), self.model.layers, f"layers.{sublayer}")
        if self.layers.as_released:
            return tuple(layer for place, layer in enumerate(chosen, start=1) if layer == place)
        return chosen

    def gated_in(self, layer: int) -> list[str]:
        """The sublayers of a layer (from 1) that have a residual gate."""
        return [name for name in ("attention", "feed_forward") if layer in self.gated(name)]
