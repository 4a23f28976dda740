"""Compose the rows of a table, each once: the names of their runs, what validation has chosen, rows with overrides."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from highway.config.compose import experiment
from highway.config.experiment import Experiment
from highway.errors import Refused
from highway.ledger.directory import RunDirectory, roots
from highway.ledger.identity import identified
from highway.tables.choose import FIRST_SEED, Choice, Combination, choice
from highway.tables.grid import swept_with_overrides
from highway.tables.reading import left_out, load_table
from highway.tables.table import Row, Table

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
    return tuple(table.overrides(row, budget, 0))


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


def compose_row(table: Table, row: Row, budget: str) -> Experiment:
    """Return the experiment of a row at a budget; its seed is arbitrary."""
    return composed(overrides_of(table, row, budget))


def with_overrides(table: Table, budgets: Sequence[str], overrides: Sequence[str]) -> Table:
    """Return the table with an extra row for each row that becomes another run with these overrides.

    The caption names the overrides; the table's own rows are labelled as unchanged. If no row becomes another run, the
    table is as it was.
    """
    if not overrides:
        return table
    changed = [row.named_after(overrides) for row in table.rows]
    against = table.against or {table.rows[0].id: [row.id for row in table.rows[1:]]}
    own = {row.id: [*against.get(row.id, ()), new.id] for row, new in zip(table.rows, changed, strict=True)}
    whole = table.model_copy(update={"rows": [*table.rows, *changed], "against": against | own})
    known = {identified(compose_row(table, row, budget)) for budget in budgets for row in table.at(budget)}

    refusals: list[Refused] = []

    def differs(row: Row, budget: str) -> bool:
        try:
            return identified(compose_row(whole, row, budget)) not in known
        except Refused as refused:  # the overrides do not fit this row
            refusals.append(refused)
            return False

    new = [row for row in changed if any(differs(row, budget) for budget in budgets)]
    if len(refusals) == len(changed) * len(budgets):
        raise refusals[0]
    if not new:
        return table
    labels = {changed_row.id: row.label for row, changed_row in zip(table.rows, changed, strict=True)}
    plain = (row.model_copy(update={"label": f"{row.label}, unchanged"}) for row in table.rows)
    rows = [*plain, *(row.model_copy(update={"label": labels[row.id]}) for row in new)]
    caption = f"{table.caption}, with {' '.join(overrides)}"
    return whole.model_copy(update={"rows": rows, "caption": caption})


def tables_with_overrides(names: Sequence[str], outputs_dir: Path) -> Iterator[Table]:
    """Yield each of these tables as it was trained with further overrides here, with the budgets at which it was."""
    for name, overrides, budgets in swept_with_overrides(outputs_dir):
        if name not in names:
            continue
        with left_out(f"{name} with {' '.join(overrides)}"):
            changed = with_overrides(load_table(name), budgets, overrides)
            yield changed.model_copy(update={"budgets": {budget: changed.budgets[budget] for budget in budgets}})
