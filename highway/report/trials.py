"""Finds the trials of rows among the records, and fills in the settings that they choose."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from highway.ledger.directory import roots, seed_directories
from highway.report.rows import name_of_runs
from highway.sweep.choose import FIRST_SEED
from highway.sweep.chosen import Decision, decision
from highway.sweep.table import Figure, Row, Table, last_on_each_key

Decisions = dict[str, dict[int, Decision]]  # row -> seed that chooses -> decision
FIGURE = Figure("chosen_settings", "Validation of each trial, and the setting that was chosen", kind="choices")


def with_choices(table: Table, budget: str, outputs_dir: Path) -> tuple[Table, Decisions]:
    """Return the table with the settings that the trials on disk choose, and the decisions."""
    decisions: Decisions = {}
    rows = []
    for row in table.rows:
        row, found = with_choice(table, row, budget, outputs_dir)
        rows.append(row)
        if found:
            decisions[row.id] = found
    return replace(table, rows=tuple(rows)), decisions


def with_choice(table: Table, row: Row, budget: str, outputs_dir: Path) -> tuple[Row, dict[int, Decision]]:
    """Return a row with the settings that its trials choose, and the decision of each seed that chooses."""
    if row.choose is None or not row.choose.at(budget) or not row.at(budget):
        return row, {}
    folders = partial(_folders, outputs_dir=outputs_dir)
    seeds = [FIRST_SEED]
    if row.choose.seeds == "each":
        paths = folders(table.overrides(row, budget, FIRST_SEED))
        seeds = sorted({int(seed.name[4:]) for path in paths for seed in seed_directories(path.parent)}) or seeds
    found = {seed: each for seed in seeds if (each := decision(table, row, budget, seed, folders))}
    chosen = {seed: each.chosen.combination for seed, each in found.items() if each.chosen}
    return replace(row, chosen=chosen), found


def _folders(overrides: list[str], outputs_dir: Path) -> list[Path]:
    """Return the directories in which a run may lie, those of this machine first."""
    seed = next(override for override in reversed(overrides) if override.startswith("seed="))
    name = name_of_runs(tuple(last_on_each_key([*overrides, "seed=0"])))
    return [root / name / seed.replace("=", "") for root in roots(outputs_dir)]
