"""The test loss of counting, against naive sums."""

import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from highway.data.counting import counting_loss


def naive(train: list[int], test: list[int]) -> float:
    """Return the mean loss under training frequencies, where a symbol that is missing counts as seen once."""
    counts = Counter(train)
    size = len(train) + sum(symbol not in counts for symbol in range(max(train + test) + 1))
    return -sum(math.log(max(counts[symbol], 1) / size) for symbol in test) / len(test)


def test_symbols_and_labels() -> None:
    train, test = [0, 0, 1, 3, 3, 3], [0, 3, 2, 4]
    text = {"train": np.array(train), "test": np.array(test)}
    assert counting_loss(text) == pytest.approx(naive(train, test))
    labelled = {
        split: SimpleNamespace(labels=np.array(symbols)) for split, symbols in (("train", train), ("test", test))
    }
    assert counting_loss(labelled) == pytest.approx(naive(train, test))


def test_keys_of_tunes() -> None:
    """A key's frequency is that of all steps after the first of their tune."""
    train = [np.array([[1, 1], [1, 0], [0, 0]]), np.array([[0, 1], [1, 1]])]
    test = [np.array([[0, 0], [1, 0]])]
    frequency = (2 / 3, 1 / 3)
    expected = -math.log(frequency[0]) - math.log(1 - frequency[1])
    assert counting_loss({"train": train, "test": test}) == pytest.approx(expected)


def test_pieces_of_translations_without_their_start() -> None:
    from datasets import Dataset

    targets = {"train": [[9, 1, 2], [9, 1, 1, 2]], "test": [[9, 1, 3, 2]]}
    splits = {split: Dataset.from_dict({"source": rows, "target": rows}) for split, rows in targets.items()}
    assert counting_loss(splits) == pytest.approx(naive([1, 2, 1, 1, 2], [1, 3, 2]))
