"""Penn Treebank (Mikolov's version) as a stream of words or of characters.

The forms, and the number of symbols of train / valid / test in each (a test counts them):

    eos         word files, each newline spelled as the five characters <eos>   5,269,890 / 413,262 / 464,989
    newline     word files, each newline one symbol                             5,101,618 / 399,782 / 449,945
    joined      word files, newlines taken out                                  5,059,550 / 396,412 / 446,184
    characters  the ptb.char files, one end-of-line symbol a line               5,017,482 / 393,042 / 442,423
    word        words, one <eos> a line                                           929,589 /  73,760 /  82,430
"""

import re
from pathlib import Path

import numpy as np

from highway.cards.datasets import LanguageDataset
from highway.data import sample_texts
from highway.data.sources import PENN_TREEBANK
from highway.data.texts import Streams, cached_streams

SPLITS = ("train", "valid", "test")
END = "<eos>"


def files(dataset: LanguageDataset, data_dir: Path) -> dict[str, Path]:
    """Return the path of each split's file, whether it exists or not."""
    kind = "char." if dataset.form == "characters" else ""
    return {split: data_dir / PENN_TREEBANK.folder / f"ptb.{kind}{split}.txt" for split in SPLITS}


def verify(dataset: LanguageDataset, data_dir: Path) -> None:
    PENN_TREEBANK.verify_all(files(dataset, data_dir).values())


def streams(dataset: LanguageDataset, data_dir: Path, cache_dir: Path) -> Streams:
    """Return the three splits as symbol numbers, with the vocabulary of the training split."""
    if dataset.source == "sample":
        generated = sample_texts.penn_treebank(characters=dataset.form == "characters")
        texts = {split: text.encode() for split, text in generated.items()}
    else:
        paths = files(dataset, data_dir)
        PENN_TREEBANK.ensure(list(paths.values()))
        texts = {split: path.read_bytes() for split, path in paths.items()}
    return cached_streams(texts, dataset, lambda text: _symbols(text.decode(), dataset.form), cache_dir)


def _symbols(text: str, form: str) -> list[str] | np.ndarray:
    """Return the symbols of a text in order: words as strings, characters as code points (fast to number)."""
    if form == "word":
        return re.sub("\n", f" {END} ", text).split()
    if form == "characters":
        return _code_points(text.replace(" ", ""))  # "_" stands for a real space
    return _code_points(text.replace("\n", {"eos": END, "newline": "\n", "joined": ""}[form]))


def _code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
