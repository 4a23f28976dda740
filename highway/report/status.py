"""Where the cells of a table stand."""

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid

from highway.ledger.cell import Cell
from highway.ledger.identity import identified
from highway.report.collect import REFERENCE, Sample, collect, described, samples
from highway.sweep.table import Row, Table


def print_status(table: Table, outputs: Path, console: Console) -> None:
    """Which seeds of which rows are finished, running, failed or interrupted, at every budget."""
    grid = Grid(box=SIMPLE_HEAD, title=f"{table.id}: seeds and where they stand", title_justify="left")
    grid.add_column("row", no_wrap=True)
    for budget in table.budgets:
        grid.add_column(budget)
    for row in table.rows:
        grid.add_row(row.id, *("\n".join(standing(table, row, budget, outputs)) or "—" for budget in table.budgets))
    console.print(grid)


def standing(table: Table, row: Row, budget: str, outputs: Path) -> list[str]:
    """One line a state: `finished 1, 2`; the published records count as finished."""
    if row not in table.at(budget):
        return []
    about = described(table, row, budget)
    name = identified(about)
    if table.kind == "timing":
        timed = [sample for sample in collect(table, budget, outputs).every if sample.result["row"] == name]
        return [f"{_of_record(sample)} {sample.seed} ({sample.result['cost']['device']})" for sample in timed]
    roots = [outputs / "cells", REFERENCE / "cells"]
    states = {sample.seed: _of_record(sample) for sample in samples(about, roots)}
    for path in (outputs / "cells" / name).glob("seed*/"):
        cell, seed = Cell(path), int(path.name.removeprefix("seed"))
        if not (cell.done or (cell.status == "waiting" and seed in states)):
            states[seed] = _of_cell(cell)
    by_state: dict[str, list[str]] = {}
    for seed, state in sorted(states.items()):
        by_state.setdefault(state, []).append(str(seed))
    return [f"{state} {', '.join(seeds)}" for state, seeds in by_state.items()]


def _of_record(sample: Sample) -> str:
    marks = {"older revision": sample.older_revision, "other code": sample.other_code}
    told = ", ".join(mark for mark, true in marks.items() if true)
    return sample.result["status"] + (f" ({told})" if told else "")


def _of_cell(cell: Cell) -> str:
    progress = cell.progress
    if cell.status in ("running", "interrupted") and progress:
        return f"{cell.status} at {progress['step'] / progress['steps']:.0%}:"
    return cell.status
