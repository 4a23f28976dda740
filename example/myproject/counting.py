"""The numbers from 1,000 to 9,999, each digit as a word: generated, so nothing is downloaded."""

from pathlib import Path

from highway.cards.datasets import LanguageDataset
from highway.data.texts import Streams, cached_streams

HELD_OUT = {"valid": 0, "test": 4}  # the hundreds of these numbers, modulo 9: 1800 to 1899 are in the validation split


def streams(dataset: LanguageDataset, data_dir: Path, cache_dir: Path) -> Streams:
    splits: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for number in range(1000, 10_000):
        split = next((split for split, rest in HELD_OUT.items() if number // 100 % 9 == rest), "train")
        splits[split].append(" ".join(str(number)) + " ;")
    texts = {split: "\n".join(lines).encode() for split, lines in splits.items()}
    return cached_streams(texts, dataset, lambda text: text.decode().split(), cache_dir)
