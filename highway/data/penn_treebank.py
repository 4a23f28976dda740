"""Penn Treebank (Mikolov's version) as a stream of words or of characters.

The forms, and how many symbols train / valid / test have in each (a test counts them):

    eos         word files, each newline spelled as the five characters <eos>   5,269,890 / 413,262 / 464,989
    newline     word files, each newline one symbol                             5,101,618 / 399,782 / 449,945
    joined      word files, newlines taken out                                  5,059,550 / 396,412 / 446,184
    characters  the ptb.char files, one end-of-line symbol a line               5,017,482 / 393,042 / 442,423
    word        words, one <eos> a line                                           929,589 /  73,760 /  82,430
"""

import re
from pathlib import Path

import numpy as np

from highway.config.datasets import LanguageDataset
from highway.data import sample
from highway.data.download import Archive
from highway.data.stream import Streams, cached_streams

SPLITS = ("train", "valid", "test")
END = "<eos>"

ARCHIVE = Archive(
    name="Penn Treebank",
    url="http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz",
    sha256=None,  # the archive holds much else; its files are checked one by one
    folder="ptb",
    members={
        f"./simple-examples/data/ptb.{kind}{split}.txt": f"ptb.{kind}{split}.txt"
        for kind in ("", "char.")
        for split in SPLITS
    },
    checksums={
        "ptb.train.txt": "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
        "ptb.valid.txt": "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
        "ptb.test.txt": "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
        "ptb.char.train.txt": "e313d91425e06c4f0a8fb6e881dcce0c291f2a0e9f4dda54833069b122f91da9",
        "ptb.char.valid.txt": "21661f63ec355085879458b6524644d4add5573541b4be14fb52ab2e2e995eb8",
        "ptb.char.test.txt": "1ef5607ac3c463b16e38bfe7900dd3bfc91de5a96e0f21e7eab5188b465b8ebe",
    },
)


def files(dataset: LanguageDataset, data_dir: Path) -> dict[str, Path]:
    """Where each split's file belongs, present or not."""
    kind = "char." if dataset.form == "characters" else ""
    return {split: data_dir / ARCHIVE.folder / f"ptb.{kind}{split}.txt" for split in SPLITS}


def verify(dataset: LanguageDataset, data_dir: Path) -> None:
    ARCHIVE.verify_all(files(dataset, data_dir).values())


def streams(dataset: LanguageDataset, data_dir: Path, cache_dir: Path) -> Streams:
    """The three splits as symbol numbers, with the vocabulary that the training split gives."""
    if dataset.source == "sample":
        generated = sample.penn_treebank(characters=dataset.form == "characters")
        texts = {split: text.encode() for split, text in generated.items()}
    else:
        paths = files(dataset, data_dir)
        ARCHIVE.ensure(list(paths.values()))
        texts = {split: path.read_bytes() for split, path in paths.items()}
    return cached_streams(texts, dataset, lambda text: _symbols(text.decode(), dataset.form), cache_dir)


def _symbols(text: str, form: str) -> list[str] | np.ndarray:
    """The symbols of a text in order: words as strings, characters as code points (fast to number)."""
    if form == "word":
        return re.sub("\n", f" {END} ", text).split()
    if form == "characters":
        return _code_points(text.replace(" ", ""))  # "_" stands for a real space
    return _code_points(text.replace("\n", {"eos": END, "newline": "\n", "joined": ""}[form]))


def _code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
