"""Texts as streams of numbered symbols, cached on disk. highway/data/windows.py reads them in batches."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from highway.cards.datasets import DATASETS, LanguageDataset
from highway.data.fetch import cached
from highway.errors import Refused
from highway.ledger.files import read_json, write_json, written_atomically

CHUNK = 1 << 20


@dataclass(frozen=True)
class Streams:
    """The numbered symbols of the splits, and their vocabulary."""

    splits: dict[str, Tensor]  # train, valid, test: (n,), uint8 or int32
    vocabulary: list[str]
    sha256: dict[str, str]  # split -> sha256 of its text
    units = "symbols"  # the unit of the length of a split

    @property
    def vocabulary_sha256(self) -> str:
        return hashlib.sha256("\n".join(self.vocabulary).encode()).hexdigest()


Symbols = list[str] | np.ndarray | bytes  # words, code points, or bytes as they are


def cached_streams(
    texts: dict[str, bytes],
    dataset: LanguageDataset,
    symbols: Callable[[bytes], Symbols],
    cache_dir: Path,
) -> Streams:
    """Number the symbols of each split by the vocabulary of `train`, or read them from the cache."""
    sha256 = {split: hashlib.sha256(text).hexdigest() for split, text in texts.items()}
    revision = DATASETS[dataset.name].revision
    recipe = [dataset.name, revision, dataset.form, sha256]
    folder = cached(cache_dir, f"{dataset.name}-{dataset.form}", recipe, partial(_number, texts, symbols))
    vocabulary = read_json(folder / "vocabulary.json")
    if len(vocabulary) != dataset.vocabulary_size:
        raise Refused(
            f"dataset {dataset.name}, form {dataset.form}, has {len(vocabulary)} symbols, "
            f"and dataset.vocabulary.{dataset.source} declares {dataset.vocabulary_size}: "
            f"set dataset.vocabulary.{dataset.source}={len(vocabulary)}."
        )
    splits = {split: torch.from_numpy(np.load(folder / f"{split}.npy")) for split in texts}
    return Streams(splits, vocabulary, sha256)


def _number(texts: dict[str, bytes], symbols: Callable[[bytes], Symbols], folder: Path) -> None:
    """Write the numbered splits. The vocabulary is in order of first appearance in `train`."""
    split_symbols = {split: symbols(text) for split, text in texts.items()}
    kinds, first = _kinds_and_first(split_symbols["train"])
    order = np.argsort(first)
    rank = np.empty(len(kinds), dtype=np.uint8 if len(kinds) <= 256 else np.int32)
    rank[order] = np.arange(len(kinds))
    for split, values in split_symbols.items():
        numbered = _by_table if isinstance(values, bytes) else _by_search
        with written_atomically(folder / f"{split}.npy") as file:
            np.save(file, numbered(values, kinds, rank, split))  # type: ignore[arg-type]
    write_json(folder / "vocabulary.json", [_name(kind) for kind in kinds[order]])


def _kinds_and_first(values: Symbols) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct symbols, sorted, and the position of the first occurrence of each."""
    if not isinstance(values, bytes):
        return np.unique(np.asarray(values), return_index=True)
    seen = bytes(set(values[:CHUNK]))  # most symbols occur early, so 100 million bytes need no sorting
    kinds = np.array(sorted({*seen, *values.translate(None, seen)}), dtype=np.uint8)
    return kinds, np.array([values.find(bytes([kind])) for kind in kinds.tolist()])


def _by_search(values: Symbols, kinds: np.ndarray, rank: np.ndarray, split: str) -> np.ndarray:
    values = np.asarray(values)
    indices = np.searchsorted(kinds, values).clip(max=len(kinds) - 1)
    _refuse_unknown(values[kinds[indices] != values][:1], split)
    return rank[indices]


def _by_table(values: bytes, kinds: np.ndarray, rank: np.ndarray, split: str) -> np.ndarray:
    _refuse_unknown(np.frombuffer(values.translate(None, kinds.tobytes()), np.uint8)[:1], split)
    table = np.zeros(256, dtype=np.uint8)
    table[kinds] = rank
    return np.frombuffer(values.translate(table.tobytes()), np.uint8)


def _refuse_unknown(symbols: np.ndarray, split: str) -> None:
    if len(symbols):
        raise Refused(f"the {split} split has a symbol that the training split lacks: {_name(symbols[0])!r}.")


def _name(symbol: np.generic) -> str:
    return str(symbol) if isinstance(symbol, np.str_) else chr(int(symbol))
