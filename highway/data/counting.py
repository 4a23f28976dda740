"""The test loss of counting: of predictions by the frequencies in the training data, whatever came before.

A run keeps it in its record. A run whose own test loss is not below it has not learned (highway/report/sample.py).
"""

from typing import Any

import numpy as np

CHUNK = 1 << 20  # symbols counted at a time: numpy widens them to eight bytes each


def symbol_loss(train: Any, test: Any) -> float:
    """Return the mean loss in nats of test symbols under the frequencies of the training symbols."""
    size = int(max(train.max(), test.max())) + 1
    trained, tested = _counts(train, size), _counts(test, size)
    seen = np.maximum(trained, 1)  # a symbol that is missing in training counts as seen once
    return float(tested @ -np.log(seen / seen.sum()) / tested.sum())


def _counts(symbols: Any, size: int) -> Any:
    parts = (symbols[start : start + CHUNK] for start in range(0, len(symbols), CHUNK))
    return sum(np.bincount(part, minlength=size) for part in parts)


def key_loss(train: list[Any], test: list[Any]) -> float:
    """Return the mean loss in nats of a step of a tune, over 88 keys, under the frequency of each key."""
    frequency = np.concatenate([np.asarray(tune)[1:] for tune in train]).mean(0)
    frequency = np.clip(frequency, 1e-6, 1 - 1e-6)
    keys = np.concatenate([np.asarray(tune)[1:] for tune in test])
    return float(-(keys * np.log(frequency) + (1 - keys) * np.log(1 - frequency)).sum(1).mean())


def counting_loss(splits: dict[str, Any]) -> float:
    """Return the test loss of counting on the splits of a text, of tunes, of images or of translations."""
    train, test = splits["train"], splits["test"]
    if isinstance(train, list):
        return key_loss(train, test)
    return symbol_loss(np.asarray(_symbols(train)), np.asarray(_symbols(test)))


def _symbols(split: Any) -> Any:
    """Return what is predicted: the labels of images, the pieces of target sentences after the start, or the text."""
    if hasattr(split, "column_names"):
        return np.concatenate([pieces[1:] for pieces in split["target"]])
    return getattr(split, "labels", split)
