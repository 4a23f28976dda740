"""What the rows of a table are, before anything has run: equation, layers, parameters, command, paper's numbers."""

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid

from highway import catalogue
from highway.compose import experiment
from highway.report.collect import Sample, collect
from highway.schema import Experiment
from highway.sweep.cell import Cell
from highway.sweep.table import Row, Table


def explain_table(table: Table, budget: str, console: Console) -> None:
    """Every row with its parameters and its length."""
    title = f"{table.id}: {table.caption} ({table.paper}), budget {budget}"
    grid = Grid(box=SIMPLE_HEAD, title=title, title_justify="left")
    grid.add_column("row", no_wrap=True)
    grid.add_column("label")
    for name in ("parameters", "of the gates", "updates"):
        grid.add_column(name, justify="right")
    for row in table.rows:
        if row.arm and not table.rows[table.rows.index(row) - 1].arm:
            grid.add_section()
        described = experiment(table.overrides(row, budget, seed=1))
        total, gate = parameters(described)
        grid.add_row(row.id, row.label, f"{total:,}", f"{gate:,}", _length(described))
    console.print(grid)
    console.print(f"recipe: {' '.join(table.recipe)}", soft_wrap=True)
    console.print(f"all rows: python scripts/train.py -m table={table.id} budget={budget} seeds=1,2,3", soft_wrap=True)


def explain_row(table: Table, row: Row, budget: str, console: Console) -> None:
    words = table.overrides(row, budget, seed=1)
    described = experiment(words)
    baseline = experiment(table.overrides(table.rows[0], budget, seed=1))
    total, gate = parameters(described)
    more = total - parameters(baseline)[0]
    gated = {name.replace("_", "-"): described.gated(name) for name in ("attention", "feed_forward")}
    where = [f"{name} sublayers of layers {', '.join(map(str, layers))}" for name, layers in gated.items() if layers]
    lines = [
        f"{row.label}  ({table.paper}, row {row.id}{', an arm that the paper lacks' if row.arm else ''})",
        f"gate        {described.gate.residual}: {catalogue.GATES[described.gate.residual].equation}",
        f"where       {'; '.join(where) or 'nowhere'}",
        f"psi         {described.gate.activation}" if described.gate.residual.startswith("sdu") else "",
        f"parameters  {total:,}, {gate:,} of them in gates; {more:+,} against {table.rows[0].label}",
        f"updates     {_length(described)}",
        f"paper       {', '.join(f'{metric} {value:g}' for metric, value in row.paper.items()) or 'no such row'}",
        f"cell        {Cell.of(described).directory}",
        f"command     python scripts/train.py {' '.join(words)}",
    ]
    console.print("\n".join(line for line in lines if line), soft_wrap=True, highlight=False)


def print_status(table: Table, outputs: Path, console: Console) -> None:
    """Which seeds of which rows are there, at every budget."""
    grid = Grid(box=SIMPLE_HEAD, title=f"{table.id}: seeds with records", title_justify="left")
    grid.add_column("row")
    collected = {budget: collect(table, budget, outputs) for budget in table.budgets}
    for budget in collected:
        grid.add_column(budget)
    for row in table.rows:
        cells = [", ".join(_seed(sample) for sample in found.samples[row.id]) for found in collected.values()]
        grid.add_row(row.id, *(cell or "—" for cell in cells))
    console.print(grid)


def _seed(sample: Sample) -> str:
    result = sample.result
    return f"{result['seed']}" if result["status"] == "finished" else f"{result['seed']} ({result['status']})"


def _length(described: Experiment) -> str:
    trainer = described.trainer
    return f"{trainer.max_steps:,} steps" if trainer.max_steps else f"{trainer.max_epochs} epochs"


def parameters(described: Experiment) -> tuple[int, int]:
    """All parameters and those of gates, counted on a model without storage."""
    import torch

    from highway.build import model
    from highway.record import parameter_counts

    with torch.device("meta"):
        counts = parameter_counts(model(described))
    return counts["total"], counts["gate"]
