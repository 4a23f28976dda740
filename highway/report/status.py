"""The status of the runs of a table."""

import itertools
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable

from highway.errors import counted
from highway.ledger.directory import DONE, RunDirectory, seed_directories
from highway.machine import cores
from highway.report.sample import records
from highway.report.times import measurements
from highway.tables.choose import Choice
from highway.tables.rows import name_of_runs, overrides_of, with_choice
from highway.tables.table import Row, Table

MANY = 50  # rows; no table of the papers has so many


def print_status(table: Table, outputs: Path, console: Console) -> None:
    """Print which seeds of each row are finished, running, failed or interrupted, at every budget.

    For a timed table, print its measurements.
    """
    if table.timed:
        for budget in table.budgets:
            for line in _measurements(table, budget, outputs):
                console.print(f"{table.id} {budget}: {line}", soft_wrap=True, highlight=False, markup=False)
        return
    grid = RichTable(box=SIMPLE_HEAD, title=f"{table.id}: status and seeds of each row", title_justify="left")
    grid.add_column("row", overflow="fold")
    for budget in table.budgets:
        grid.add_column(budget)
    for row, texts in zip(table.rows, _by_row(table, outputs), strict=True):
        grid.add_row(row.id, *texts)
    console.print(grid)


def _by_row(table: Table, outputs: Path) -> list[list[str]]:
    """Return the texts of each row; several processes read those of many rows, which may be thousands of records."""
    if len(table.rows) < MANY:
        return [_status_by_budget(table, outputs, row) for row in table.rows]
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    way = "fork" if sys.platform == "linux" else "spawn"  # macOS's own libraries do not survive a fork
    with ProcessPoolExecutor(cores(), mp_context=get_context(way)) as pool:
        return list(pool.map(partial(_status_by_budget, table, outputs), table.rows))


def _status_by_budget(table: Table, outputs: Path, row: Row) -> list[str]:
    by_budget = (row_status(table, row, budget, outputs) for budget in table.budgets)
    return ["\n".join(line.text for line in lines) or "not run" for lines in by_budget]


@dataclass(frozen=True)
class StatusLine:
    """The seeds of a row that have the same status: `running at 25%: seed 3`."""

    status: str
    text: str


def row_status(table: Table, row: Row, budget: str, outputs: Path) -> list[StatusLine]:
    """Return a line for each status that seeds of a row have; published records count as finished."""
    if table.timed or not row.at(budget):
        return []
    row, choice = with_choice(table, row, budget, outputs)
    statuses: dict[int, tuple[str, str]] = {}  # by seed: the status, and how it is printed
    ended = set()  # so that each of thousands of records is read once
    name = name_of_runs(overrides_of(table, row, budget))
    for sample in records(name, outputs):
        statuses.setdefault(sample.seed, (sample.result["status"], sample.result["status"]))
        ended.add(sample.directory)
    for path in seed_directories(outputs / "cells" / name):
        directory, seed = RunDirectory(path), int(path.name.removeprefix("seed"))
        if path in ended:
            continue
        status = directory.status
        if status not in DONE and not (status == "waiting" and seed in statuses):
            statuses[seed] = status, _progress_text(directory, status)
    by_status: dict[tuple[str, str], list[int]] = {}
    for seed, about in sorted(statuses.items()):
        by_status.setdefault(about, []).append(seed)
    lines = [StatusLine(status, f"{text}: {seeds_text(numbers)}") for (status, text), numbers in by_status.items()]
    return [*lines, *_trials(choice)]


def _trials(choice: Choice | None) -> list[StatusLine]:
    """Return a line on the trials of a row, unless none has begun."""
    if choice is None:
        return []
    count = Counter(trial.status for trial in choice.trials if trial != choice.winner)
    if set(count) == {"waiting"}:
        return []
    trials = ", ".join(f"{number} {status}" for status, number in count.items())
    state = "settings chosen; other trials" if choice.chosen else "settings to be chosen; trials"
    return [StatusLine("trials", f"{state}: {trials}")]


def _measurements(table: Table, budget: str, outputs: Path) -> list[str]:
    """Return a line for each measurement of a timed table."""
    lines = [
        f"measured {measurement.name}: {counted(len(measurement.rows), 'row')}, {measurement.rounds} rounds, on "
        f"{measurement.setting}{', beside other work' if measurement.disturbed else ''}"
        for measurement in measurements(table, budget, outputs)
    ]
    return lines or [f"not measured yet. Type {table.time_command(budget)}"]


def _progress_text(directory: RunDirectory, status: str) -> str:
    progress = directory.progress if status in ("running", "interrupted") else {}
    return f"{status} at {progress['step'] / progress['steps']:.0%}" if progress else status


def seeds_text(seeds: Sequence[int]) -> str:
    """Name seeds in ascending order; a range stands for four or more consecutive ones: `seeds 1, 2, 5-9`."""
    parts: list[str] = []
    for _, group in itertools.groupby(enumerate(seeds), lambda pair: pair[1] - pair[0]):
        consecutive = [seed for _, seed in group]
        parts += [f"{consecutive[0]}-{consecutive[-1]}"] if len(consecutive) > 3 else map(str, consecutive)
    return f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(parts)}"
