"""A table of `kind: timing`: all of its rows are one cell, which has the name of the device in its identity.

`python scripts/train.py table=highway_t7 budget=mini seed=1` is its one run; words that follow hold for every row.
Nothing here imports torch before the rows are known to be right.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from highway.config.schema import Experiment
from highway.errors import Refused
from highway.ledger.cell import Cell
from highway.sweep.table import Table, last_on_each_key, load_table, table_ids

USUAL = {"table": "", "budget": "paper", "seed": "1"}


@dataclass(frozen=True)
class Timing:
    table: Table
    budget: str
    rows: dict[str, Experiment]

    @property
    def first(self) -> Experiment:
        """The row that the others are compared with; what it says of device, threads and precision holds for all."""
        return next(iter(self.rows.values()))

    @property
    def threads(self) -> int:
        assert self.first.trainer.threads is not None
        return self.first.trainer.threads

    @property
    def device(self) -> str:
        import torch

        return "cuda" if self.first.trainer.accelerator != "cpu" and torch.cuda.is_available() else "cpu"

    @property
    def cell(self) -> Cell:
        from highway.run.machine import device_name

        surroundings: dict[str, Any] = {"device": device_name(self.device), "threads": self.threads}
        surroundings["compile"] = self.first.trainer.compile
        return Cell.of_timing(list(self.rows.values()), surroundings)


def is_timing(words: Sequence[str]) -> bool:
    """Whether a command line without flags names such a table."""
    tables = [word.removeprefix("table=") for word in words if word.startswith("table=")]
    return bool(tables) and not any(word.startswith("-") for word in words) and tables[-1] in table_ids("timing")


def timing(words: Sequence[str], compose: Callable[[list[str]], Experiment]) -> Timing:
    """The run that a command line describes."""
    by_key = {word.split("=", 1)[0]: word for word in words if not word.startswith("hydra")}
    table, budget, seed = (by_key.pop(key, f"{key}={usual}").split("=", 1)[1] for key, usual in USUAL.items())
    if not seed.isdigit():
        raise Refused(f"seed={seed} is not a whole number from 0 upwards.")
    about = load_table(table)
    described = {row.id: about.overrides(row, budget, int(seed)) for row in about.rows}
    rows = {name: compose(last_on_each_key([*words, *by_key.values()])) for name, words in described.items()}
    for row in rows.values():
        row.trainer.threads = row.trainer.threads or os.cpu_count() or 1
    if next(iter(rows.values())).trainer.precision == "64":
        raise Refused("trainer.precision=64 is for checking, not for timing; 32 and bf16 are timed.")
    return Timing(about, budget, rows)
