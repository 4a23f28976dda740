"""Gives back the tables of four papers on gating. From Python:

import highway
trained = highway.load("outputs/highway_t3/smoke/tanh/seed1")
logits = trained.logits("the")                            # (T, V), a tensor
steps, values = trained.curve("valid", "loss")            # arrays
"""

from typing import Any


def load(cell: Any, last: bool = False) -> Any:
    """The trained model of a cell, a view or a file of weights, with the best weights or the last.

    `experiment`, `model` (a torch module), `streams`, `logits(text)`, `curve(split, metric)`.
    """
    from highway.use.load import load as loaded  # torch takes seconds, and most of highway does without

    return loaded(cell, last)
