"""Reproduce the tables of four papers on gating. From Python (docs/PYTHON.md):

import highway
run = highway.train({"model": "transformer", "gate": "sdu_tanh", "dataset": "ptb_char", "budget": "smoke"})
run.metrics["test_bpc"]["best"]
steps, values = run.curve("valid", "loss")               # arrays
logits = run.logits("the")                               # (T, V), a tensor
highway.runs(table="highway_t1", budget="smoke")         # a pandas frame
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # importing highway imports nothing else, because torch and pandas take seconds
    import pandas as pd

    from highway.api.compare import Comparison

__version__ = "1.0.0"
__all__ = ["compare", "curves", "load", "runs", "train"]


def train(settings: "Mapping[str, Any] | Sequence[str]", progress: bool | None = None) -> Any:
    """Train a run and load it. A finished run is loaded at once; a run that was stopped is resumed.

    settings: overrides as a mapping, which may be nested, or as a list of texts as on the command line.
    progress: show a progress bar; by default on a terminal and in a notebook.
    """
    from highway.api.train import train as trained

    return load(trained(settings, progress).path)


def load(run: Any, last: bool = False) -> Any:
    """Load the trained model of a run directory, or of a file of weights, with the best weights or the last.

    It has `experiment`, `metrics`, `model` (a torch module), `streams`, `logits(text)`, `curve(split, metric)`. A
    record without weights, such as a published one, has only `experiment`, `metrics` and `curve`.
    run: a path, or a row of the frame that `highway.runs` returns.
    """
    from highway.config import project
    from highway.use.load import load as loaded

    project.load()
    return loaded(getattr(run, "directory", run), last)


def runs(table: str | None = None, budget: str | None = None) -> "pd.DataFrame":
    """Return the numbers of all runs of a table or grid, or of all: a line for each run, metric and checkpoint.

    Columns: run, directory, table, budget, row, seed, status, metric, checkpoint (best or last), value, and each
    setting in which the rows of a table differ.
    """
    from highway.api.frames import runs as collected

    return collected(table, budget, _outputs())


def curves(
    table: str | None = None, budget: str | None = None, split: str | None = None, metric: str | None = None
) -> "pd.DataFrame":
    """Return the curves of the same runs: a line for each point, with step, epoch, seconds and tokens."""
    from highway.api.frames import curves as collected

    return collected(table, budget, split, metric, _outputs())


def compare(table: str, budget: str | None = None) -> "Comparison":
    """Return the report of a table or grid: it prints as text, and a notebook shows it as HTML."""
    from highway.api.compare import compare as compared

    return compared(table, budget, _outputs())


def _outputs() -> Path:
    from highway.config.home import outputs_folder

    return outputs_folder()
