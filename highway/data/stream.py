"""Numbered symbol streams, cached on disk and memory-mapped; the cache's key is a hash of the content."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from highway import catalogue
from highway.errors import Refused
from highway.files import read_json, write_json, written_atomically
from highway.schema import Dataset


@dataclass(frozen=True)
class Streams:
    splits: dict[str, Tensor]  # train, valid, test: (n,), uint8 or int32
    vocabulary: list[str]
    sha256: dict[str, str]  # of each split's text

    @property
    def vocabulary_sha256(self) -> str:
        return hashlib.sha256("\n".join(self.vocabulary).encode()).hexdigest()


def cached_streams(
    texts: dict[str, bytes],
    dataset: Dataset,
    symbols: Callable[[bytes], list[str] | np.ndarray],
    cache_dir: Path,
) -> Streams:
    """Number the symbols of each split by the vocabulary of `train`, or take what was numbered before."""
    sha256 = {split: hashlib.sha256(text).hexdigest() for split, text in texts.items()}
    revision = catalogue.DATASETS[dataset.name].revision
    key = hashlib.sha256(json.dumps([dataset.name, revision, dataset.form, sha256]).encode()).hexdigest()[:16]
    folder = cache_dir / f"{dataset.name}-{dataset.form}-{key}"
    if not (folder / "vocabulary.json").exists():
        _number(texts, symbols, folder)
    vocabulary = read_json(folder / "vocabulary.json")
    if len(vocabulary) != dataset.vocabulary_size:
        raise Refused(
            f"dataset {dataset.name}, form {dataset.form}, has {len(vocabulary)} symbols, "
            f"and dataset.vocabulary.{dataset.source} declares {dataset.vocabulary_size}."
        )
    splits = {split: _mapped(folder / f"{split}.npy") for split in texts}
    return Streams(splits, vocabulary, sha256)


def _mapped(path: Path) -> Tensor:
    return torch.from_numpy(np.load(path, mmap_mode="c"))  # copy-on-write: torch wants a writable array


def _number(texts: dict[str, bytes], symbols: Callable[[bytes], list[str] | np.ndarray], folder: Path) -> None:
    """Vocabulary in order of first appearance in `train`; a symbol that train lacks is refused."""
    split_symbols = {split: np.asarray(symbols(text)) for split, text in texts.items()}
    in_bytes = split_symbols["train"].dtype == np.uint8
    kinds, first = (_bytes_and_first if in_bytes else _kinds_and_first)(split_symbols["train"])
    order = np.argsort(first)
    rank = np.empty(len(kinds), dtype=np.uint8 if len(kinds) <= 256 else np.int32)
    rank[order] = np.arange(len(kinds))
    for split, values in split_symbols.items():
        numbered = (_by_table if in_bytes else _by_search)(values, kinds, rank, split)
        with written_atomically(folder / f"{split}.npy") as file:
            np.save(file, numbered)
    write_json(folder / "vocabulary.json", [_name(kind) for kind in kinds[order]])  # last: the cache is whole


def _kinds_and_first(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.unique(values, return_index=True)


def _bytes_and_first(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same for bytes, without sorting a hundred million of them."""
    content = values.tobytes()
    first = np.array([content.find(bytes([kind])) for kind in range(256)])
    return np.flatnonzero(first >= 0).astype(np.uint8), first[first >= 0]


def _by_search(values: np.ndarray, kinds: np.ndarray, rank: np.ndarray, split: str) -> np.ndarray:
    found = np.searchsorted(kinds, values).clip(max=len(kinds) - 1)
    _refuse_unknown(values[kinds[found] != values][:1], split)
    return rank[found]


def _by_table(values: np.ndarray, kinds: np.ndarray, rank: np.ndarray, split: str) -> np.ndarray:
    content, table = values.tobytes(), np.zeros(256, dtype=np.uint8)
    unknown = content.translate(None, kinds.tobytes())
    _refuse_unknown(np.frombuffer(unknown, np.uint8)[:1], split)
    table[kinds] = rank
    return np.frombuffer(content.translate(table.tobytes()), np.uint8)


def _refuse_unknown(symbols: np.ndarray, split: str) -> None:
    if len(symbols):
        raise Refused(f"the {split} split has a symbol that the training split lacks: {_name(symbols[0])!r}.")


def _name(symbol: np.generic) -> str:
    return str(symbol) if isinstance(symbol, np.str_) else chr(int(symbol))
