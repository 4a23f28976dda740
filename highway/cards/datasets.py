"""The cards of all data sets, and the keys of the group `dataset`, which depend on the data set's task.

A new data set is one reader in highway/data/, one card here and one file in conf/dataset/ (docs/RECIPES.md).
"""

from dataclasses import field
from typing import Any, NamedTuple

from pydantic.dataclasses import dataclass

from highway.cards.card import Cards
from highway.cards.models import Remembers
from highway.errors import Refused, as_typed, listing
from highway.keys.schema import STRICT, Written, choice, key, number, part

PADDING, UNKNOWN, START, END = range(4)  # the first pieces of every vocabulary for translation
SOURCE = "files: the real data; sample: generated, no network needed"


@dataclass(frozen=True, config=STRICT)
class DatasetCard:
    """A data set: its reader and task, and what reports and `highway data verify` say about it."""

    reader: str  # a module: `Reader` in highway/data/prepare.py
    task: str  # one of highway/cards/tasks.py
    forms: dict[str, str]  # form -> the unit of its text: words, characters, bytes or pieces
    watched: str = "valid"  # the split that is evaluated in training; `test` if the papers use no other
    extent: str = "files"  # files: the whole data set of the papers; otherwise its name in records
    caveat: str = "full data"  # the remark of reports on results with it
    checked: str = "every file has its declared sha256"  # the statement of highway data verify
    checksums: dict[str, str] = field(default_factory=dict)  # sha256 of your own files; in the identity
    revision: int = 1


NO_RESULT = " (no result of the paper's task)"
SAMPLE = f"generated data{NO_RESULT}"
RANDOM = "random symbols (a step takes no other time for real ones)"
PAIRS = "valid and test are the published pairs; the training text has no published checksum"
IN_BYTES = dict.fromkeys(("without_newline", "bytes"), "bytes")
IN_PIECES = dict.fromkeys(("unigram", "bpe"), "pieces")
IN_CHARACTERS = dict.fromkeys(("eos", "newline", "joined", "characters"), "characters")
ENWIK8 = "its length and the sha256 of its first 4,150,000 bytes are right"
TRANSLATION = "highway.data.translation"
SIDE = 28  # pixels, of an image of MNIST
CLASSES, KEYS = 10, 88

OURS = {
    "penn_treebank": DatasetCard("highway.data.penn_treebank", "language", {**IN_CHARACTERS, "word": "words"}),
    "enwik8": DatasetCard("highway.data.enwik8", "language", IN_BYTES),
    "enwik8_excerpt": DatasetCard(
        "highway.data.enwik8",
        "language",
        IN_BYTES,
        extent="excerpt",
        checked=ENWIK8,
        caveat="the first 4.15 MB of enwik8 (no result of the paper's task)",
    ),
    "iwslt_pt_en": DatasetCard(TRANSLATION, "translation", IN_PIECES, checked=PAIRS),
    "pt_en_substitute": DatasetCard(
        TRANSLATION,
        "translation",
        IN_PIECES,
        extent="substitute",
        caveat="trained on a substitute corpus (no result of the paper's task)",
        checked="valid and test are the published pairs; each file of the training text has its declared sha256",
    ),
    "mnist": DatasetCard("highway.data.images", "classification", {"pixels": "values"}, watched="test"),
    "nottingham": DatasetCard("highway.data.tunes", "music", {"keys": "values"}),
}
DATASETS = Cards("data set", OURS)
PUBLISHED = frozenset(card.reader for card in DATASETS.values())  # their files have published checksums
CORPORA = (
    "tatoeba",
    "wiki_health",
    "tico19",
    "ntrex128",
    "flores101_devtest",
    "bible",
)  # the parts of the substitute corpus


def check_no_embedding(experiment: Any) -> None:
    """Refuse keys of an embedding for data without one: they would name another run, but change nothing."""
    model = experiment.model
    like_embedding = getattr(model, "init_maps", "") == "embedding"  # all maps start as an embedding would
    for name, item in type(model).model_fields.items():
        value = getattr(model, name)
        is_read = like_embedding and name.startswith("init_embedding")
        if ("_embedding" in name or name == "tied") and value != item.default and not is_read:
            raise Refused(
                f"model.{name}={as_typed(value)}: {experiment.dataset.name} is read as values, without an embedding. "
                f"Leave model.{name}={as_typed(item.default)}."
            )


def check_share(experiment: Any, key: str, whole: int) -> None:
    """Refuse a split into devices and parts that leaves a part without a lane or example."""
    trainer = experiment.trainer
    if trainer.processes * trainer.accumulate > whole:
        times = f" times trainer.accumulate={trainer.accumulate}" if trainer.accumulate > 1 else ""
        raise Refused(
            f"{trainer.processes_as_asked}{times} is more than {key}={whole}. Lower it: each part needs at least one."
        )


def check_form(dataset: Any) -> None:
    """Refuse a form that the card of the data set does not name."""
    forms = list(DATASETS[dataset.name].forms)
    if dataset.form not in forms:
        raise Refused(f"dataset.form={dataset.form} does not exist for {dataset.name}. Available: {listing(forms)}.")


class Vocabulary(Written):
    files: int = number(1, 1, description="symbols of the real data")
    sample: int = number(1, 1, description="symbols of the generated sample")


class Context(NamedTuple):
    """The context that a model with memory sees beyond the window that it reads."""

    memory: int = 0  # positions before the window
    clamp: int | None = None  # larger relative distances count as this distance
    same_length: bool = False  # every position attends to exactly `memory` positions, itself included


NO_MEMORY = Context()


class Cut(Written):
    """The way a stream is read: parallel lanes, a window that moves over them, and the scored tail of each window."""

    lanes: int = number(1, 1, description="parallel parts into which a text is cut; each is one row of every batch")
    window: int = number(1, 1, description="positions that a model reads at once")
    stride: int = number(1, 1, description="positions from one window to the next")
    scored: int = number(1, 1, description="last positions of a window that count in the loss")
    memory: int = number(0, 0, description="positions before the window that a model with memory attends to")
    clamp: int | None = number(None, 1, description="larger relative distances count as this distance")
    same_length: bool = key(False, "every position attends to exactly `memory` positions, itself included")
    whole: bool = key(False, "leave out a last window that is shorter than the others")

    @property
    def context(self) -> Context:
        return Context(self.memory, self.clamp, self.same_length)


class LanguageDataset(Written):
    name: str = "penn_treebank"
    form: str = key("eos", "spelling of the text; each option of the group `dataset` sets it")
    source: str = choice("files", "sample", description=SOURCE)
    vocabulary: Vocabulary = part(Vocabulary, "checked when the data is read", names_run=False)
    metric: str = choice("bpc", "ppl", description="metric shown beside the loss", names_run=False)
    train: Cut = part(Cut, "the way the training text is read")
    evaluation: Cut = part(Cut, "during training; also at the end if `final` is null")
    final: Cut | None = key(None, "evaluation of the trained model; null: as during training")
    carry_state: bool = key(False, "windows follow one another, and the model carries its state from window to window")
    loss: str = choice(
        "mean",
        "sum",
        description="training loss: mean or sum over the scored steps of a window, then the mean over lanes",
    )

    @property
    def vocabulary_size(self) -> int:
        return self.vocabulary.files if self.source == "files" else self.vocabulary.sample

    @property
    def vocabulary_sizes(self) -> tuple[int, ...]:
        return (self.vocabulary_size,)

    @property
    def cuts(self) -> dict[str, Cut]:
        every = {"train": self.train, "evaluation": self.evaluation, "final": self.final}
        return {name: cut for name, cut in every.items() if cut is not None}

    @property
    def longest_text(self) -> int:
        """The number of positions that a model reads at once."""
        return max(cut.window for cut in self.cuts.values())

    def check(self) -> None:
        check_form(self)
        for name, cut in self.cuts.items():
            if cut.scored > cut.window:
                raise Refused(f"dataset.{name}.scored={cut.scored} is longer than the window of {cut.window}.")
            if cut.stride > cut.scored:
                raise Refused(
                    f"dataset.{name}.stride={cut.stride} is longer than scored={cut.scored}, which skips symbols."
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

    def fits(self, experiment: Any) -> None:
        model = experiment.model
        if model.tied and model.width_in != model.width_out:
            raise Refused(
                f"a language model reads and predicts with one embedding, but {model.name} reads vectors of width "
                f"{model.width_in} and returns vectors of width {model.width_out}: set model.input so that they agree, "
                "or model.tied=false."
            )
        if any(cut.memory or cut.clamp for cut in self.cuts.values()) and experiment.remembers is not Remembers.MEMORY:
            zeros = " and ".join(f"dataset.{name}.memory=0" for name in self.cuts)
            raise Refused(f"{experiment.model.name} has no memory: set {zeros}, and clamp=null.")
        check_share(experiment, "dataset.train.lanes", self.train.lanes)


class Pieces(Written):
    """The sizes of the source and target vocabularies, including four special pieces."""

    files: list[int] = key([8000, 8000], "of the real data")
    sample: list[int] = key([200, 200], "of the generated sample")


class TranslationDataset(Written):
    name: str = "iwslt_pt_en"
    form: str = key("unigram", "model type of sentencepiece")
    source: str = choice("files", "sample", description=SOURCE)
    pieces: Pieces = part(Pieces, "sizes of the source and target vocabularies, including four special pieces")
    corpora: list[str] = key(
        [], "parts of the substitute corpus to train on", read_when={"name": ("pt_en_substitute",)}
    )
    longest_words: int = number(50, 1, description="leave out training pairs with more words on a side")
    longest: int = number(
        64,
        3,
        description="pieces, start and end included: longer training pairs are left out, other text is cut there",
    )
    batch: int = number(64, 1, description="sentences")
    batch_pieces: int | None = number(
        None,
        1,
        description="target pieces in a training batch, padding included; null: dataset.batch sentences",
    )
    timed_sentences: int = number(
        0, 0, description="sentences translated one at a time after training, as the paper measures inference"
    )
    metric: str = choice("accuracy", description="metric shown beside the loss", names_run=False)

    @property
    def vocabulary_sizes(self) -> tuple[int, int]:
        source, target = self.pieces.files if self.source == "files" else self.pieces.sample
        return source, target

    @property
    def vocabulary(self) -> Pieces:
        return self.pieces

    @property
    def longest_text(self) -> int:
        return self.longest

    def spelled(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values with the vocabulary sizes of the chosen source, files or sample, only."""
        return {**values, "pieces": list(self.vocabulary_sizes)}

    def check(self) -> None:
        check_form(self)
        for name in ("files", "sample"):
            sizes = getattr(self.pieces, name)
            if len(sizes) != 2 or min(sizes) <= END + 1:
                raise Refused(f"dataset.pieces.{name} takes two numbers above {END + 1}, for source and target.")
        wrong = [name for name in self.corpora if name not in CORPORA]
        if wrong:
            raise Refused(f"dataset.corpora={wrong[0]} is unknown. Available: {listing(list(CORPORA))}.")
        if self.batch_pieces is not None and self.batch_pieces < self.longest:
            raise Refused(
                f"dataset.batch_pieces={self.batch_pieces} holds no sentence of {self.longest} pieces. Raise it."
            )

    def fits(self, experiment: Any) -> None:
        check_share(experiment, "dataset.batch", self.batch)


class ImageDataset(Written):
    name: str = "mnist"
    form: str = key("pixels", "one value a pixel")
    source: str = choice("files", "sample", description=SOURCE)
    side: int = number(
        SIDE, 1, SIDE, description="images are reduced to side x side pixels by averaging; the papers use 28"
    )
    batch: int = number(32, 1, description="images")
    shuffled: bool = key(False, "true: a new order in each epoch; false: the order of the file, as the released code")
    metric: str = choice("accuracy", description="metric shown beside the loss", names_run=False)

    @property
    def longest_text(self) -> int:
        return self.side**2

    def check(self) -> None:
        check_form(self)
        if SIDE % self.side:
            raise Refused(f"dataset.side={self.side} does not divide {SIDE}. Use 1, 2, 4, 7, 14 or 28.")

    def fits(self, experiment: Any) -> None:
        check_no_embedding(experiment)
        check_share(experiment, "dataset.batch", self.batch)


class MusicDataset(Written):
    name: str = "nottingham"
    form: str = key("keys", "the 88 keys of a piano")
    source: str = choice("files", "sample", description=SOURCE)
    batch: int = number(1, 1, description="tunes; the loss is summed over their steps")
    metric: str = choice("nll", description="metric shown beside the loss", names_run=False)

    def check(self) -> None:
        check_form(self)

    def fits(self, experiment: Any) -> None:
        check_no_embedding(experiment)
        if experiment.optimizer.label_smoothing:
            raise Refused(
                "optimizer.label_smoothing needs classes, and music has none: set optimizer.label_smoothing=0."
            )
        check_share(experiment, "dataset.batch", self.batch)
