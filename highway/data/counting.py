"""The test loss of counting: of the frequencies in the training data, which know nothing of what came before.

A run whose test loss is not below it has not learned (highway/report/counting.py).
"""

from typing import Any

import numpy as np


def symbol_loss(train: Any, test: Any) -> float:
    """Return the mean loss in nats of test symbols under the frequencies of the training symbols."""
    train, test = np.asarray(train), np.asarray(test)
    size = int(max(train.max(), test.max())) + 1
    counts = np.bincount(train, minlength=size)
    seen = np.maximum(counts, 1)  # a symbol that is missing in training counts as seen once
    return float(-np.log(seen[test] / seen.sum()).mean())


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
    return symbol_loss(_symbols(train), _symbols(test))


def _symbols(split: Any) -> Any:
    """Return what is predicted: the labels of images, the pieces of target sentences after the start, or the text."""
    if hasattr(split, "column_names"):
        return np.concatenate([pieces[1:] for pieces in split["target"]])
    return getattr(split, "labels", split)
