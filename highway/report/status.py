"""Where the cells of a table stand."""

import itertools
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid

from highway.ledger.cell import DONE, Cell
from highway.ledger.device import cores
from highway.ledger.identity import identified
from highway.ledger.system import way_to_start_processes
from highway.report.collect import REFERENCE, Sample, collect, described, records, seeds
from highway.sweep.table import Row, Table


def print_status(table: Table, outputs: Path, console: Console) -> None:
    """Which seeds of which rows are finished, running, failed or interrupted, at every budget."""
    grid = Grid(box=SIMPLE_HEAD, title=f"{table.id}: seeds and where they stand", title_justify="left")
    grid.add_column("row", no_wrap=True)
    for budget in table.budgets:
        grid.add_column(budget)
    with ProcessPoolExecutor(
        cores(), mp_context=get_context(way_to_start_processes())
    ) as pool:  # there may be thousands of records
        for row, shown in zip(table.rows, pool.map(partial(_of_row, table, outputs), table.rows), strict=True):
            grid.add_row(row.id, *shown)
    console.print(grid)


def _of_row(table: Table, outputs: Path, row: Row) -> list[str]:
    return ["\n".join(standing(table, row, budget, outputs)) or "—" for budget in table.budgets]


def standing(table: Table, row: Row, budget: str, outputs: Path) -> list[str]:
    """One line a state: `finished 1, 2`; the published records count as finished."""
    if row not in table.at(budget):
        return []
    about = described(table, row, budget)
    name = identified(about)
    if table.kind == "timing":
        timed = [sample for sample in collect(table, budget, outputs).every if sample.result["row"] == name]
        return [f"{_of_record(sample)} {sample.seed} ({sample.result['cost']['device']})" for sample in timed]
    states: dict[int, str] = {}
    ended = set()  # a cell's record is read once, of thousands of cells
    for sample in records(about, [outputs / "cells", REFERENCE / "cells"]):
        states.setdefault(sample.seed, _of_record(sample))
        ended.add(sample.directory)
    for path in seeds(outputs / "cells" / name):
        if path in ended:
            continue
        cell, seed = Cell(path), int(path.name.removeprefix("seed"))
        status = cell.status
        if status not in DONE and not (status == "waiting" and seed in states):
            states[seed] = _of_cell(cell, status)
    by_state: dict[str, list[int]] = {}
    for seed, state in sorted(states.items()):
        by_state.setdefault(state, []).append(seed)
    return [f"{state} {', '.join(ranges(numbers))}" for state, numbers in by_state.items()]


def ranges(numbers: list[int]) -> list[str]:
    """Four or more that follow one another as one: 1, 2, 5-9."""
    found: list[str] = []
    for _, run in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        followers = [number for _, number in run]
        found += [f"{followers[0]}-{followers[-1]}"] if len(followers) > 3 else map(str, followers)
    return found


def _of_record(sample: Sample) -> str:
    marks = {"older revision": sample.older_revision, "other code": sample.other_code}
    told = ", ".join(mark for mark, true in marks.items() if true)
    return sample.result["status"] + (f" ({told})" if told else "")


def _of_cell(cell: Cell, status: str) -> str:
    progress = cell.progress if status in ("running", "interrupted") else {}
    return f"{status} at {progress['step'] / progress['steps']:.0%}:" if progress else status
