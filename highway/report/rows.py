"""Compose the rows of a table, each once, and name the directories of their runs."""

from functools import cache

from highway.config.compose import experiment
from highway.config.experiment import Experiment
from highway.ledger.identity import identified
from highway.sweep.table import Row, Table, last_on_each_key


@cache  # a report asks for hundreds, most of them more than once
def composed(overrides: tuple[str, ...]) -> Experiment:
    """Return the experiment that the overrides of a row describe."""
    return experiment(list(overrides))


def name_of_runs(overrides: tuple[str, ...]) -> str:
    """Return the name of the directory of a row's runs."""
    return identified(composed(overrides))


def overrides_of(table: Table, row: Row, budget: str, seed: int = 1) -> tuple[str, ...]:
    """Return the overrides of a row at a budget, with the settings that were chosen for a seed, but with seed 0."""
    return tuple(last_on_each_key([*table.overrides(row, budget, seed), "seed=0"]))
