"""What the rows of a table are, before anything has run: equation, layers, parameters, command, paper's numbers."""

import itertools
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from highway.audit.origins import origins
from highway.config import catalogue
from highway.config.check import CONF, flat
from highway.config.compose import experiment
from highway.config.schema import Experiment
from highway.ledger.cell import Cell, identity
from highway.report.collect import REFERENCE, Sample, cell_names, collect, samples
from highway.sweep.table import TABLES, Row, Table

READINGS = {
    "residual": "x goes into a sublayer f, and the sum comes out",
    "score": "S is what attention makes its softmax of, a number for each query and key",
}


def explain_table(table: Table, budget: str, console: Console) -> None:
    """Every row with its parameters and its length."""
    title = f"{table.id}: {table.caption} ({table.paper}), budget {budget}"
    grid = Grid(box=SIMPLE_HEAD, title=title, title_justify="left")
    grid.add_column("row", no_wrap=True)
    grid.add_column("label")
    for name in ("parameters", "of the gates", "updates"):
        grid.add_column(name, justify="right")
    rows = table.at(budget)
    for before, row in zip([rows[0], *rows], rows, strict=False):
        if row.arm and not before.arm:
            grid.add_section()
        described = experiment(table.overrides(row, budget, seed=1))
        total, gate = parameters(described)
        grid.add_row(row.id, row.label, f"{total:,}", f"{gate:,}", _length(described))
    console.print(grid)
    console.print(f"recipe: {' '.join(table.recipe)}", soft_wrap=True)
    console.print(f"all rows: python scripts/train.py -m table={table.id} budget={budget} seeds=1,2,3", soft_wrap=True)


def explain_row(table: Table, row: Row, budget: str, console: Console) -> None:
    """What a row is, for someone who has not read the paper, and everything that defines it."""
    words = table.overrides(row, budget, seed=1)
    described = experiment(words)
    score = described.gate.score
    gate, model = catalogue.GATES[described.gate.residual], catalogue.MODELS[described.model.name]
    activation = described.gate.activation
    if score.name != "none":
        gate, activation = catalogue.GATES[score.name], score.activation
    psi = f",  psi = {activation}" if "psi" in gate.equation else ""
    arm = ", an arm: a row that the paper lacks" if row.arm else ""
    about = {
        "row": f"{row.label}  ({table.id} {row.id}, budget {budget}{arm})",
        "table": f"{table.caption}. {table.paper}.",
        "model": f"{model.in_words} Here {described.model.layers} layers of width {described.model.width:,}.",
        "gate": gate.in_words,
        "equation": f"{gate.equation}{psi}\n{READINGS[gate.interface]}; * is elementwise. Code: {gate.code}",
        "where": _where(described),
        "data": _first_comment(CONF / "dataset" / f"{_chosen(words, 'dataset')}.yaml"),
        "length": _length(described),
        "parameters": _parameters_in_words(table, described, budget),
    }
    grid = Grid(box=None, show_header=False, padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(max_width=104)
    for name, text in about.items():
        grid.add_row(name, Text(text))
    console.print(grid)
    _print_numbers(table, row, console)
    _print_settings(table, row, budget, described, console)
    if table.kind == "timing":
        where, words = (
            "one for all rows, which are timed side by side",
            [f"table={table.id}", f"budget={budget}", "seed=1"],
        )
    else:
        where = str(Cell.of(described).directory)
    console.print(f"cell     {where}", soft_wrap=True, highlight=False)
    console.print(f"command  python scripts/train.py {' '.join(words)}", soft_wrap=True, highlight=False)


def _where(described: Experiment) -> str:
    parts = []
    for name in ("attention", "feed_forward"):
        gated = described.gated(name)
        if gated:
            every = len(gated) == described.model.layers
            numbers = "every layer" if every else f"layers {', '.join(map(str, gated))} of {described.model.layers}"
            parts.append(f"the {name.replace('_', '-')} sublayer of {numbers}")
    score = described.gate.score
    if score.name != "none":
        count = "all earlier layers" if score.accumulated else f"up to {score.predecessors} earlier layers"
        parts.append(f"the scores of {', '.join(score.attention)} attention, from layer 2 on, each reading {count}")
    return " and ".join(parts) or "no sublayer"


def _parameters_in_words(table: Table, described: Experiment, budget: str) -> str:
    total, gate = parameters(described)
    baseline = table.rows[0]
    before = parameters(experiment(table.overrides(baseline, budget, seed=1)))[0]
    return f"{total:,}, of which {gate:,} in gates; {total - before:+,} ({total / before - 1:+.1%}) to {baseline.label}"


def _print_numbers(table: Table, row: Row, console: Console) -> None:
    """What the paper says of this row, beside its baseline, and where."""
    baseline = table.rows[0]
    if not row.paper:
        console.print("\nThe paper has no numbers for this row.")
        return
    grid = Grid(box=SIMPLE_HEAD, title=f"the paper's numbers ({table.paper})", title_justify="left")
    for head in ("", row.label, *([baseline.label] if row is not baseline else [])):
        grid.add_column(head, justify="right" if head else "left")
    for column in table.columns:
        values = [entry.paper.get(column.metric) for entry in (row, baseline)[: len(grid.columns) - 1]]
        texts = ["—" if value is None else f"{value:.{column.digits}f}" for value in values]
        grid.add_row(f"{column.title} ({column.metric}, {column.better} is better)", *texts)
    console.print(grid)
    console.print(
        f"Source: {_first_comment(TABLES / f'{table.id}.yaml', skip=1)} {table.note}".rstrip(), soft_wrap=True
    )


def _print_settings(table: Table, row: Row, budget: str, described: Experiment, console: Console) -> None:
    """Everything that is part of the cell's identity, and the file that set it."""
    grid = Grid(box=SIMPLE_HEAD, title="settings other than the neutral defaults", title_justify="left")
    for head in ("setting", "value", "set by"):
        grid.add_column(head, no_wrap=head != "value")
    found = origins(table, row, budget)
    for key, value in flat(identity(described)["keys"]).items():
        setter = next((file for name, file in found.items() if name == key or name.startswith(f"{key}.")), "")
        grid.add_row(Text(key), Text(str(value)), setter)
    console.print(grid)


def _chosen(words: list[str], group: str) -> str:
    return next(word.split("=", 1)[1] for word in words if word.split("=", 1)[0] == group)


def _first_comment(path: Path, skip: int = 0) -> str:
    """The comment that a configuration file opens with, as one line of text."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), path.read_text().splitlines())
    return " ".join(line.lstrip("# ") for line in itertools.islice(lines, skip, None))


def print_status(table: Table, outputs: Path, console: Console) -> None:
    """Which seeds of which rows are finished, running, failed or interrupted, at every budget."""
    grid = Grid(box=SIMPLE_HEAD, title=f"{table.id}: seeds and where they stand", title_justify="left")
    grid.add_column("row", no_wrap=True)
    for budget in table.budgets:
        grid.add_column(budget)
    for row in table.rows:
        grid.add_row(row.id, *("\n".join(_seeds(table, row, budget, outputs)) or "—" for budget in table.budgets))
    console.print(grid)


def _seeds(table: Table, row: Row, budget: str, outputs: Path) -> list[str]:
    """One line a state: `finished 1, 2`; the published records count as finished."""
    if row not in table.at(budget):
        return []
    names = cell_names(table, row, budget)
    if table.kind == "timing":
        timed = [sample for sample in collect(table, budget, outputs).every if sample.result["row"] == names[0][0]]
        return [f"finished {sample.seed} ({sample.result['cost']['device']})" for sample in timed]
    states = {sample.seed: _of_record(sample) for sample in samples(names, [outputs / "cells", REFERENCE / "cells"])}
    for path in (outputs / "cells" / names[0][0]).glob("seed*/"):
        cell, seed = Cell(path), int(path.name.removeprefix("seed"))
        if not (cell.status == "waiting" and seed in states):
            states[seed] = _of_cell(cell)
    by_state: dict[str, list[str]] = {}
    for seed, state in sorted(states.items()):
        by_state.setdefault(state, []).append(str(seed))
    return [f"{state} {', '.join(seeds)}" for state, seeds in by_state.items()]


def _of_record(sample: Sample) -> str:
    return sample.result["status"] + (" (older revision)" if sample.older_revision else "")


def _of_cell(cell: Cell) -> str:
    progress = cell.progress
    if cell.status in ("running", "interrupted") and progress:
        return f"{cell.status} at {progress['step'] / progress['steps']:.0%}:"
    return cell.status


def _length(described: Experiment) -> str:
    trainer = described.trainer
    return f"{trainer.max_steps:,} steps" if trainer.max_steps else f"{trainer.max_epochs} epochs"


def parameters(described: Experiment) -> tuple[int, int]:
    """All parameters and those of gates, counted on a model without storage."""
    import torch

    from highway.run.build import model
    from highway.run.record import parameter_counts

    with torch.device("meta"):
        counts = parameter_counts(model(described))
    return counts["total"], counts["gate"]
