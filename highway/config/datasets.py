"""What data sets there are: a card each, and the keys of the group `dataset`, which depend on the data set's task."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from highway.config.fields import choice, key, number, part
from highway.config.models import Remembers
from highway.errors import Refused, listing

PADDING, UNKNOWN, START, END = range(4)  # the pieces that every vocabulary of a translation begins with
SOURCE = "files: the real data; sample: generated, no network needed"


@dataclass(frozen=True)
class DatasetCard:
    reader: str  # a module with streams(dataset, data_dir, cache_dir), files and verify(dataset, data_dir)
    task: str  # one of highway/config/tasks.py
    forms: dict[str, str]  # how a text is spelled in each: in words, characters, bytes or pieces
    watched: str = "valid"  # the split that is evaluated in training; `test` where the papers have no other
    extent: str = "files"  # files: the whole data set of the papers; else what records call it
    caveat: str = "full data"  # what reports say of results on it
    checked: str = "every file has the published sha256"  # what scripts/data.py verify has found out
    revision: int = 1


SAMPLE = "generated sample text (no result of the paper's task)"
RANDOM = "random symbols (a step takes no other time for real ones)"
PAIRS = "valid and test are the published pairs; the training text has no published checksum"
IN_BYTES = dict.fromkeys(("without_newline", "bytes"), "bytes")
IN_PIECES = dict.fromkeys(("unigram", "bpe"), "pieces")
IN_CHARACTERS = dict.fromkeys(("eos", "newline", "joined", "characters"), "characters")
ENWIK8 = "its length and the sha256 of its first 4,150,000 bytes are right"
TRANSLATION = "highway.data.translation"
SIDE = 28  # of an image of MNIST
CLASSES, KEYS = 10, 88

DATASETS = {
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
        checked=PAIRS,
    ),
    "mnist": DatasetCard("highway.data.mnist", "classification", {"pixels": "values"}, watched="test"),
    "nottingham": DatasetCard("highway.data.nottingham", "music", {"keys": "values"}),
}
CORPORA = ("tatoeba", "wiki_health", "tico19", "ntrex128", "flores101_devtest", "bible")  # of the substitute


def check_no_embedding(experiment: Any) -> None:
    """Values are read as they are: what belongs to an embedding would be another cell, and change nothing."""
    for item in dataclasses.fields(experiment.model):
        value = getattr(experiment.model, item.name)
        if "_embedding" in item.name and value != item.default:
            raise Refused(
                f"model.{item.name}={value}: {experiment.dataset.name} is read as values, without an embedding; "
                f"leave it at {item.default}."
            )


def check_share(experiment: Any, key: str, whole: int) -> None:
    """Each part of each device's share has one lane or example at least."""
    trainer = experiment.trainer
    if trainer.processes * trainer.accumulate > whole:
        times = f" times trainer.accumulate={trainer.accumulate}" if trainer.accumulate > 1 else ""
        raise Refused(
            f"{trainer.processes_as_asked}{times} is more than {key}={whole}: lower it, each needs one at least."
        )


def check_form(dataset: Any) -> None:
    forms = list(DATASETS[dataset.name].forms)
    if dataset.form not in forms:
        raise Refused(f"dataset.form={dataset.form} does not exist for {dataset.name}; it has {listing(forms)}.")


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
    memory: int = number(0, 0, words="positions before the window that a model with memory attends to")
    clamp: int | None = number(None, 1, words="relative distances beyond this one count as this one")
    same_length: bool = key(False, "every position sees exactly `memory` positions, itself included")
    whole: bool = key(False, "a last window that is shorter than the others is left out")


@dataclass
class LanguageDataset:
    name: str = "penn_treebank"
    form: str = "eos"
    source: str = choice("files", "sample", words=SOURCE)
    vocabulary: Vocabulary = part(Vocabulary, "checked when the data is read", aside=True)
    metric: str = choice("bpc", "ppl", words="what is shown beside the loss", aside=True)
    train: Cut = part(Cut)
    evaluation: Cut = part(Cut, "in training, and at the end unless `final` says otherwise")
    final: Cut | None = key(None, "how the trained model is evaluated; null: as in training")
    carry_state: bool = key(False, "windows follow one another, and the model's state is carried")
    loss: str = choice("mean", "sum", words="of training, over the scored steps of a window; over lanes, their mean")

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
        """Positions that a model sees at once."""
        return max(cut.window for cut in self.cuts.values())

    def check(self) -> None:
        check_form(self)
        for name, cut in self.cuts.items():
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

    def fits(self, experiment: Any) -> None:
        model = experiment.model
        if model.width_in != model.width_out:
            raise Refused(
                f"a language model predicts by the embedding that it reads by, and {model.name} reads vectors of width "
                f"{model.width_in} and gives such of {model.width_out}: model.input and model.output make them equal."
            )
        if any(cut.memory or cut.clamp for cut in self.cuts.values()) and experiment.remembers is not Remembers.MEMORY:
            zeros = " and ".join(f"dataset.{name}.memory=0" for name in self.cuts)
            raise Refused(f"{experiment.model.name} has no memory: set {zeros}, and no clamp.")
        check_share(experiment, "dataset.train.lanes", self.train.lanes)


@dataclass
class Pieces:
    """How many pieces the vocabularies of source and target have, the four special ones included."""

    files: list[int] = key([8000, 8000])
    sample: list[int] = key([200, 200])


@dataclass
class TranslationDataset:
    name: str = "iwslt_pt_en"
    form: str = key("unigram", "of sentencepiece")
    source: str = choice("files", "sample", words=SOURCE)
    pieces: Pieces = part(Pieces, "of source and target, the four special ones included")
    corpora: list[str] = key(
        [], "which parts of the substitute are trained on", read_when={"name": ("pt_en_substitute",)}
    )
    longest_words: int = number(50, 1, words="longer training pairs are left out")
    longest: int = number(
        64, 3, words="in pieces, start and end included: longer training pairs are left out, other text is cut there"
    )
    batch: int = number(64, 1, words="sentences")
    batch_pieces: int | None = number(None, 1, words="instead: batches of so many target pieces, padding included")
    timed_sentences: int = number(0, 0, words="translated one by one after training, as the paper measures inference")
    metric: str = choice("accuracy", words="what is shown beside the loss", aside=True)

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

    def canonical(self, values: dict[str, Any]) -> dict[str, Any]:
        """Of the two sizes of vocabularies, the one that is read."""
        return {**values, "pieces": list(self.vocabulary_sizes)}

    def check(self) -> None:
        check_form(self)
        for name in ("files", "sample"):
            sizes = getattr(self.pieces, name)
            if len(sizes) != 2 or min(sizes) <= END + 1:
                raise Refused(f"dataset.pieces.{name} takes two numbers above {END + 1}, for source and target.")
        wrong = [name for name in self.corpora if name not in CORPORA]
        if wrong:
            raise Refused(f"dataset.corpora names {wrong[0]}; there is {listing(list(CORPORA))}.")
        if self.batch_pieces is not None and self.batch_pieces < self.longest:
            raise Refused(f"dataset.batch_pieces={self.batch_pieces} holds no sentence of {self.longest} pieces.")

    def fits(self, experiment: Any) -> None:
        check_share(experiment, "dataset.batch", self.batch)


@dataclass
class ImageDataset:
    name: str = "mnist"
    form: str = "pixels"
    source: str = choice("files", "sample", words=SOURCE)
    side: int = number(SIDE, 1, SIDE, words="images are shrunk to side x side, each pixel a mean; the papers do not")
    batch: int = number(32, 1, words="images")
    shuffled: bool = key(False, "a new order in each epoch; the released code keeps that of the file")
    metric: str = choice("accuracy", words="what is shown beside the loss", aside=True)

    @property
    def longest_text(self) -> int:
        return self.side**2

    def check(self) -> None:
        check_form(self)
        if SIDE % self.side:
            raise Refused(f"dataset.side={self.side} does not divide {SIDE}.")

    def fits(self, experiment: Any) -> None:
        check_no_embedding(experiment)
        check_share(experiment, "dataset.batch", self.batch)


@dataclass
class MusicDataset:
    name: str = "nottingham"
    form: str = "keys"
    source: str = choice("files", "sample", words=SOURCE)
    batch: int = number(1, 1, words="tunes; the loss is summed over their steps")
    metric: str = choice("nll", words="what is shown beside the loss", aside=True)

    def check(self) -> None:
        check_form(self)

    def fits(self, experiment: Any) -> None:
        check_no_embedding(experiment)
        if experiment.optimizer.label_smoothing:
            raise Refused("optimizer.label_smoothing is of classes, and music has none: leave it at 0.")
        check_share(experiment, "dataset.batch", self.batch)
