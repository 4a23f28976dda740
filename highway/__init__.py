"""Reproduce the tables of four papers on gating. From Python (docs/PYTHON.md):

import highway
run = highway.train({"model": "transformer", "gate": "sdu_tanh", "dataset": "ptb_char", "budget": "smoke"})
run.metrics["test_bpc"]["best"]
steps, values = run.curve("valid", "loss")               # arrays
logits = run.logits("the")                               # (T, V), a tensor
highway.runs(table="highway_t1", budget="smoke")         # a pandas frame
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from highway.python.compare import compare
    from highway.python.frames import curves, runs
    from highway.python.load import load
    from highway.python.train import train

__version__ = "1.0.0"
__all__ = ["compare", "curves", "load", "runs", "train"]
MODULES = {"compare": "compare", "curves": "frames", "load": "load", "runs": "frames", "train": "train"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a function when it is first used: torch and pandas take seconds."""
        if name not in MODULES:
            raise AttributeError(f"module 'highway' has no attribute '{name}'")
        return getattr(import_module(f"highway.python.{MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
