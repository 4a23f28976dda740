"""Compose the rows of a table, each once; name the directories of their runs; find what validation has chosen."""

from functools import cache
from pathlib import Path

from highway.config.compose import experiment
from highway.config.experiment import Experiment
from highway.ledger.directory import RunDirectory, roots
from highway.ledger.identity import identified
from highway.sweep.choose import FIRST_SEED, Choice, Combination, choice
from highway.sweep.table import Row, Table

Choices = dict[str, Choice]  # by row


@cache  # a report asks for hundreds, most of them more than once
def composed(overrides: tuple[str, ...]) -> Experiment:
    """Return the experiment that the overrides of a row describe."""
    return experiment(list(overrides))


def name_of_runs(overrides: tuple[str, ...]) -> str:
    """Return the name of the directory of a row's runs."""
    return identified(composed(overrides))


def overrides_of(table: Table, row: Row, budget: str) -> tuple[str, ...]:
    """Return the overrides of a row at a budget, with seed 0."""
    return tuple(table.overrides(row, budget, seed=0))


def with_choices(table: Table, budget: str, outputs_dir: Path) -> tuple[Table, Choices]:
    """Return the table with the settings that the trials on disk choose, and these choices."""
    found = {row.id: with_choice(table, row, budget, outputs_dir) for row in table.rows}
    choices = {row_id: each for row_id, (_, each) in found.items() if each}
    return table.model_copy(update={"rows": [row for row, _ in found.values()]}), choices


def with_choice(table: Table, row: Row, budget: str, outputs_dir: Path) -> tuple[Row, Choice | None]:
    """Return a row with the settings that its trials choose, and the choice; None if the row has none."""
    if not row.at(budget) or row.choose is None or not row.choose.at(budget):
        return row, None

    def directories(settings: Combination) -> list[RunDirectory]:
        name = name_of_runs(overrides_of(table, row.choosing(budget, settings), budget))
        return [RunDirectory(root / name / f"seed{FIRST_SEED}") for root in roots(outputs_dir)]

    found = choice(row.choose, table.select, directories, stated=row.chosen.get(budget))
    return row.choosing(budget, found.chosen) if found.chosen else row, found
