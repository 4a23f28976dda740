"""The numbers from 1 to 4,999, each digit as a word: generated, so nothing is downloaded."""

from pathlib import Path

from highway.config.datasets import LanguageDataset
from highway.data.stream import Streams, cached_streams

RANGES = {"train": range(1, 4000), "valid": range(4000, 4500), "test": range(4500, 5000)}


def streams(dataset: LanguageDataset, data_dir: Path, cache_dir: Path) -> Streams:
    texts = {split: "\n".join(" ".join(str(number)) + " ;" for number in numbers) for split, numbers in RANGES.items()}
    encoded = {split: text.encode() for split, text in texts.items()}
    return cached_streams(encoded, dataset, lambda text: text.decode().split(), cache_dir)
