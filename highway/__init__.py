"""Reproduce the tables of four papers on gating. From Python:

import highway
trained = highway.load("outputs/highway_t3/smoke/tanh/seed1")
logits = trained.logits("the")                            # (T, V), a tensor
steps, values = trained.curve("valid", "loss")            # arrays
"""

from typing import Any

__version__ = "1.0.dev0"


def load(run: Any, last: bool = False) -> Any:
    """Load the trained model of a run directory, or of a file of weights, with the best weights or the last.

    It has `experiment`, `model` (a torch module), `streams`, `logits(text)`, `curve(split, metric)`. Of a record
    without weights, as `highway records import` leaves it, only `experiment` and `curve` can be used.
    """
    from highway.use.load import load as loaded  # importing torch takes seconds, and most of highway does not need it

    return loaded(run, last)
