"""Portuguese to English: TED talks (HRLR, Qi et al. 2018), a substitute training corpus, or a sample.

                        train    valid     test
    iwslt_pt_en        51,785    1,193    1,803   TED talks, lower-cased and split into words as published
    pt_en_substitute   24,611    1,193    1,803   other human translations, formatted like TED; TED's valid and test
    sample              5,977      200      200   a grammar of ours (highway/data/sample_pairs.py)

Training pairs with more than `longest_words` words or `longest` pieces on a side are left out, and counted. Valid
and test are cut at `longest` pieces. The sentencepiece models are trained here on the training text, with one thread:
the vocabulary of a unigram model depends on the number of threads.
"""

import hashlib
import io
import itertools
import operator
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from highway.cards.datasets import DATASETS, END, PADDING, START, UNKNOWN, TranslationDataset
from highway.data import sample_pairs
from highway.data.fetch import cached
from highway.data.sources import SUBSTITUTE, TED
from highway.errors import Refused
from highway.ledger.files import read_json, write_json

LAYOUT = 3  # version of the cache; a new number rebuilds it
SPLITS = ("train", "valid", "test")
SIDES = ("pt", "en")
Pairs = list[tuple[str, str]]

COUNTS = {"train": 51_785, "valid": 1_193, "test": 1_803}
PAIRS_SHA256 = {  # split -> sha256 of its sorted pairs, each `source\ttarget\n`
    "valid": "ed56252e157bc2aae4f4496f7fb0e619e5c46aaed801718cbf4716c0e3fbc5a6",
    "test": "231217911fe2c3d2fe5dfae652f207bd86933e77b737af54c9f6fbf184aefd20",
}


@dataclass(frozen=True)
class Corpus:
    """A data set as pieces, with its vocabularies and counts."""

    splits: Any  # a DatasetDict; columns source and target: pieces, start and end included
    texts: dict[str, Pairs]  # valid and test, as they are scored
    source: Any  # sentencepiece processors
    target: Any
    about: dict[str, Any]  # counts, for result.json and remarks
    sha256: dict[str, str]
    vocabulary_sha256: str
    units = "pairs"  # the unit of the length of a split

    @property
    def remarks(self) -> list[str]:
        """Remarks about the pairs that were left out or cut, and about the text."""
        left_out = (
            f"{self.about['too_many_words']:,} for their words, {self.about['too_many_pieces']:,} for their pieces"
        )
        cut = ", ".join(f"{count:,} of {split}" for split, count in self.about["cut"].items())
        return [
            f"training pairs left out: {left_out}",
            f"pairs cut, but scored: {cut}",
            *(
                f"training text ({side}): {counts['mean']} words a sentence, median {counts['median']:g}, "
                f"{counts['distinct']:,} different words; most frequent: {' '.join(counts['most_frequent'])}"
                for side, counts in self.about["words"].items()
            ),
        ]


def files(dataset: TranslationDataset, data_dir: Path) -> dict[str, Path]:
    """Return the paths of each split's files, whether they exist or not."""
    paths = {f"{split}.{side}": data_dir / TED.folder / f"{split}.{side}" for split in SPLITS for side in SIDES}
    if dataset.name == "pt_en_substitute":
        paths = {name: path for name, path in paths.items() if not name.startswith("train")}
        folder = data_dir / dataset.name
        paths |= {f"{name}.{side}": folder / f"{name}.{side}" for name in dataset.corpora for side in SIDES}
    return paths


def verify(dataset: TranslationDataset, data_dir: Path) -> None:
    """Refuse files that are missing or differ from the published files."""
    for path in files(dataset, data_dir).values():
        if not path.exists():
            raise Refused(f"{path} is missing; highway data prepare fetches what can be fetched.")
    _texts(dataset, data_dir)


def streams(dataset: TranslationDataset, data_dir: Path, cache_dir: Path) -> Corpus:
    """Return the pairs as pieces: read, checked, filtered, and cached under a hash of what they were made from."""
    from datasets import disable_progress_bars, load_from_disk

    disable_progress_bars()
    texts = sample_pairs.translation() if dataset.source == "sample" else _texts(dataset, data_dir)
    sha256 = {split: pairs_sha256(pairs) for split, pairs in texts.items()}
    recipe = [dataset.name, dataset.form, dataset.vocabulary_sizes, dataset.longest_words, dataset.longest]
    recipe += [DATASETS[dataset.name].revision, sha256, LAYOUT]
    folder = cached(cache_dir, f"{dataset.name}-{dataset.form}", recipe, partial(_prepare, dataset, texts))
    source, target = (_processor((folder / f"{side}.model").read_bytes()) for side in SIDES)
    splits, about = load_from_disk(folder / "pieces", keep_in_memory=True), read_json(folder / "about.json")
    scored = {split: texts[split] for split in ("valid", "test")}
    return Corpus(splits, scored, source, target, about, sha256, about["vocabulary_sha256"])


def _prepare(dataset: TranslationDataset, texts: dict[str, Pairs], folder: Path) -> None:
    """Train the vocabularies, number the pairs, and leave out or cut those that are too long."""
    from datasets import DatasetDict

    longest = dataset.longest

    def cut(row: dict[str, list[int]]) -> dict[str, list[int]]:
        return {"source": row["source"][:longest], "target": row["target"][: longest + 1]}  # predicts `longest` pieces

    short = [pair for pair in texts["train"] if all(len(text.split()) <= dataset.longest_words for text in pair)]
    processors = []
    for side, name in enumerate(SIDES):
        lines = [pair[side] for pair in short]
        model = _trained_pieces(lines, dataset.vocabulary_sizes[side], dataset.form, name)
        (folder / f"{name}.model").write_bytes(model)
        processors.append(_processor(model))
    whole = {split: _numbered(short if split == "train" else texts[split], processors) for split in SPLITS}
    pieces = DatasetDict(
        train=whole["train"].filter(lambda row: max(map(len, row.values())) <= longest),
        valid=whole["valid"].map(cut),
        test=whole["test"].map(cut),
    )
    pieces.save_to_disk(folder / "pieces")
    about = {
        "pairs": {split: len(pairs) for split, pairs in texts.items()},
        "too_many_words": len(texts["train"]) - len(short),
        "too_many_pieces": len(short) - len(pieces["train"]),
        "cut": {split: sum(map(operator.ne, whole[split], pieces[split])) for split in ("valid", "test")},
        "pieces": {split: sum(map(len, rows["target"][:])) - len(rows) for split, rows in pieces.items()},
        "words": {name: count_words([pair[side] for pair in short]) for side, name in enumerate(SIDES)},
        "vocabulary_sha256": _vocabulary_sha256(processors),
    }
    write_json(folder / "about.json", about)


def count_words(texts: Sequence[str]) -> dict[str, Any]:
    """Count what the paper reports of its corpus: the lengths of sentences in words, and the words."""
    sentences = [text.split() for text in texts]
    lengths = [len(sentence) for sentence in sentences]
    words = Counter(itertools.chain.from_iterable(sentences))
    by_length = Counter(lengths)
    return {
        "mean": round(statistics.fmean(lengths), 2),
        "median": statistics.median(lengths),
        "distinct": len(words),
        "most_frequent": [word for word, _ in words.most_common(10)],
        "sentences_by_length": [by_length[length] for length in range(max(lengths) + 1)],
    }


def _trained_pieces(lines: Sequence[str], size: int, form: str, side: str) -> bytes:
    """Train a sentencepiece model with exactly `size` pieces; the same text gives the same pieces."""
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            vocab_size=size,
            model_type=form,
            num_threads=1,
            character_coverage=1.0,
            pad_id=PADDING,
            unk_id=UNKNOWN,
            bos_id=START,
            eos_id=END,
            minloglevel=2,
        )
    except RuntimeError as error:
        most = re.search(r"<= (\d+)", str(error))
        reason = f": it has at most {most[1]}" if most else f" ({error})"
        raise Refused(
            f"the training text ({side}) does not have {size} pieces{reason}. Change dataset.pieces."
        ) from error
    return model.getvalue()


def _processor(model: bytes) -> Any:
    from sentencepiece import SentencePieceProcessor

    return SentencePieceProcessor(model_proto=model)


def _numbered(pairs: Pairs, processors: Sequence[Any]) -> Any:
    """Return a Dataset of the pairs as pieces, start and end included."""
    from datasets import Dataset, Features, List, Value

    columns = {
        name: processor.encode([pair[side] for pair in pairs], add_bos=True, add_eos=True)
        for side, (name, processor) in enumerate(zip(("source", "target"), processors, strict=True))
    }
    return Dataset.from_dict(columns, Features(dict.fromkeys(columns, List(Value("int32")))))


def _vocabulary_sha256(processors: Sequence[Any]) -> str:
    """Return the sha256 of the pieces in order; the bytes of a model differ between two trainings."""
    pieces = [side.id_to_piece(number) for side in processors for number in range(side.get_piece_size())]
    return hashlib.sha256("\n".join(pieces).encode()).hexdigest()


def pairs_sha256(pairs: Pairs) -> str:
    """Return a sha256 that does not depend on the order of the pairs, in which two publications of TED differ."""
    lines = sorted(f"{source}\t{target}\n" for source, target in pairs)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


# Read the files


def _texts(dataset: TranslationDataset, data_dir: Path) -> dict[str, Pairs]:
    paths = files(dataset, data_dir)
    ted = [path for path in paths.values() if path.parent.name == TED.folder]
    if not all(path.exists() for path in ted):
        TED.fetch(ted, _check_ted)
    SUBSTITUTE.verify_all(path for path in paths.values() if path.parent.name == SUBSTITUTE.folder)
    if dataset.name != "pt_en_substitute":
        return {split: _read_ted(data_dir / TED.folder, split) for split in SPLITS}
    corpora = [_read(paths[f"{name}.pt"], paths[f"{name}.en"]) for name in dataset.corpora]
    train = [(like_ted(source), like_ted(target)) for pairs in corpora for source, target in pairs]
    return {"train": train, **{split: _read_ted(data_dir / TED.folder, split) for split in ("valid", "test")}}


def _check_ted(folder: Path) -> None:
    """Refuse fetched files that are not those of TED pt-en; their sha256 is not published."""
    for split in SPLITS:
        if wrong := _not_ted(split, _read(folder / f"{split}.pt", folder / f"{split}.en")):
            raise Refused(wrong)


def _read_ted(folder: Path, split: str) -> Pairs:
    pairs = _read(folder / f"{split}.pt", folder / f"{split}.en")
    if wrong := _not_ted(split, pairs):
        raise Refused(f"{folder}: {wrong}. Delete its files to fetch them again.")
    return pairs


def _not_ted(split: str, pairs: Pairs) -> str:
    """Return how the pairs of a split differ from those of TED pt-en; empty if they do not."""
    if len(pairs) != COUNTS[split]:
        return f"{split} has {len(pairs):,} pairs; TED pt-en has {COUNTS[split]:,}"
    same = split not in PAIRS_SHA256 or pairs_sha256(pairs) == PAIRS_SHA256[split]
    return "" if same else f"the pairs of {split} are not those of TED pt-en"


def _read(source: Path, target: Path) -> Pairs:
    sides = [_lines(source), _lines(target)]
    if len(sides[0]) != len(sides[1]):
        raise Refused(
            f"{source} has {len(sides[0]):,} lines and {target} has {len(sides[1]):,}: each line needs a translation."
        )
    return list(zip(*sides, strict=True))


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except FileNotFoundError as error:
        raise Refused(f"{path} is missing, and it has no source to download it from. Put it there.") from error
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise Refused(f"{path}, line {line}, is not UTF-8 text.") from error
    empty = next((number for number, line in enumerate(lines, start=1) if not line.strip()), None)
    if empty is not None:
        raise Refused(f"{path}, line {empty}, is empty, so its partner has no translation.")
    return lines


def like_ted(text: str) -> str:
    """Format a text like the TED files: lower case, no quotation marks, punctuation and English endings split off."""
    text = re.sub(r"[\"“”«»„]", " ", text.lower().replace("\u2019", "'").replace("…", "..."))
    text = re.sub(r"(\.\.\.|[,;:!?()\[\]%$€£/&*+=<>\u2013\u2014])", r" \1 ", text)
    text = re.sub(r"(?<!\.)\.(?=\s|$)", " .", text)
    text = re.sub(r"(\w)(n't|'(?:s|re|ve|ll|d|m))\b", r"\1 \2", text)
    return " ".join(text.split())
