"""Explain the rows of a table before anything runs: equation, layers, parameters, command, the paper's numbers."""

import itertools
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from highway.config.check import flat
from highway.config.code import where
from highway.config.compose import NEUTRAL, composer, experiment
from highway.config.experiment import Experiment
from highway.config.fields import description_of
from highway.config.gates import GATES, READINGS
from highway.config.project import conf_file
from highway.errors import listing
from highway.ledger.directory import RunDirectory
from highway.ledger.identity import identity
from highway.sweep.grid import command
from highway.sweep.reading import table_ids
from highway.sweep.shell import command_line
from highway.sweep.table import Row, Table

NUMBERS = 46  # characters that the columns of numbers take, with the space between columns


def explain_table(table: Table, budget: str, console: Console) -> None:
    """Print every row with its parameters and its length, then the recipe and the command."""
    title = f"{table.heading}, budget {budget}"
    rows = table.at(budget)
    stacked = console.width < NUMBERS + max(len(row.id) for row in rows) + max(len(row.label) for row in rows)
    grid = Grid(box=SIMPLE_HEAD, title=title, title_justify="left")
    for name in ("row\nlabel",) if stacked else ("row", "label"):
        grid.add_column(name, overflow="fold")
    for name in ("parameters", "of the\ngates", "length"):
        grid.add_column(name, justify="right", no_wrap=True)
    for before, row in zip([rows[0], *rows], rows, strict=False):
        if row.extra and not before.extra:
            grid.add_section()
        described = experiment(table.overrides(row, budget, seed=1))
        total, gate = parameters(described)
        names = [Text.assemble(row.id, "\n", (row.label, "dim"))] if stacked else [Text(row.id), Text(row.label)]
        grid.add_row(*names, f"{total:,}", f"{gate:,}", _length(described))
    console.print(grid)
    chosen: dict[str, list[str]] = {}  # rule -> its rows
    for row in rows:
        if row.choose and row.choose.at(budget):
            chosen.setdefault(_chosen(row, budget), []).append(row.id)
    for rule, choosing in chosen.items():
        line = f"{listing(choosing)}: {rule}"
        console.print(line, soft_wrap=not console.is_terminal, markup=False)
    console.print(f"recipe: {' '.join(table.recipe)}", soft_wrap=True, markup=False)
    console.print(f"all rows: {command(table, budget)}", soft_wrap=True, markup=False)


def explain_row(table: Table, row: Row, budget: str, console: Console) -> None:
    """Print what a row is, for someone who has not read the paper, and everything that defines it."""
    overrides = table.overrides(row, budget, seed=1)
    described = experiment(overrides)
    model = described.model_card
    extra = ", an extra row, which the paper lacks" if row.extra and table.paper else ""
    entries = {
        "row": f"{row.label}  ({table.id} {row.id}, budget {budget}{extra})",
        "table": f"{table.caption}.{f' {table.paper}.' if table.paper else ''}",
        "model": f"{model.description} Here {_layers(described.model)}.",
        **_gates(described),
        "data": _first_comment(conf_file(f"dataset/{composer().choices(overrides)['dataset']}.yaml")),
        "length": _length(described),
        "parameters": _parameters_in_words(table, row, described, budget),
    }
    grid = Grid(box=None, show_header=False, padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(max_width=104)
    for name, text in entries.items():
        grid.add_row(name, Text(text))
    console.print(grid)
    _print_numbers(table, row, console)
    if row.choose and row.choose.at(budget):
        console.print(f"\n{_chosen(row, budget)}", soft_wrap=not console.is_terminal, markup=False)
    _print_choices(table, console)
    _print_settings(table, row, budget, described, console)
    _print_descriptions(described, console)
    typed = table.time_command(budget) if table.timed else command_line(overrides)
    if not table.timed:
        console.print(f"run      {RunDirectory.of(described).path}", soft_wrap=True, highlight=False, markup=False)
    console.print(f"command  {typed}", soft_wrap=True, highlight=False, markup=False)


def _chosen(row: Row, budget: str) -> str:
    """Say what validation chooses, or has chosen, for a row."""
    assert row.choose is not None
    stated = row.chosen.get(budget)
    if stated:
        return f"{' '.join(stated)} was chosen {row.choose.rule}."
    return f"chosen {row.choose.rule}; the first is used until all are compared."


def _gates(described: Experiment) -> dict[str, str]:
    """Describe every gate of the row: what it does, its equation and its locations.

    For a row without a gate, describe `none` at the model's first location for a gate.
    """
    locations = described.model_card.locations
    if not locations:
        return {}
    chosen = {interface: name for interface, name in described.gate.chosen().items() if name != "none"}
    descriptions, equations = [], []
    for interface, name in (chosen or {next(iter(locations)): "none"}).items():
        card = GATES[interface][name]
        activation = described.gate.activation_of(interface)
        psi = f",  psi = {activation}" if activation else ""
        descriptions.append(card.description)
        equations.append(f"{card.equation}{psi}\n{READINGS[interface]}; * is elementwise. Code: {where(card.code)}")
    return {"gate": "\n".join(descriptions), "equation": "\n".join(equations), "where": _where(described)}


def _layers(model: Any) -> str:
    return f"{model.layers} layer{'s' if model.layers > 1 else ''} of width {model.width:,}"


def _where(described: Experiment) -> str:
    parts = []
    for location, gated in described.gating.layers.items():
        if gated:
            every = len(gated) == described.model.layers
            numbers = "every layer" if every else f"layers {', '.join(map(str, gated))} of {described.model.layers}"
            parts.append(f"the {location.replace('_', '-')} sublayer of {numbers}")
    score = described.gate.score
    if score.name != "none":
        count = "all earlier layers" if score.accumulated else f"up to {score.predecessors} earlier layers"
        parts.append(f"the scores of {', '.join(score.attention)} attention, from layer 2 on, each reading {count}")
    if described.gate.state.name != "none":
        parts.append(f"the state: {', '.join(described.model_card.locations['state'])}")
    return " and ".join(parts) or "no sublayer"


def _parameters_in_words(table: Table, row: Row, described: Experiment, budget: str) -> str:
    total, gate = parameters(described)
    counted, other = f"{total:,}, of which {gate:,} in gates", table.beside(row.id)
    if other.id == row.id:
        return counted
    before = parameters(experiment(table.overrides(other, budget, seed=1)))[0]
    return f"{counted}; {total - before:+,} ({total / before - 1:+.1%}) to {other.label}"


def _print_numbers(table: Table, row: Row, console: Console) -> None:
    """Print the paper's numbers for this row beside those of its baseline, and their source."""
    other = table.beside(row.id)
    if not row.paper:
        if table.paper:
            console.print("\nThe paper has no numbers for this row.")
        return
    grid = Grid(box=SIMPLE_HEAD, title=f"the paper's numbers ({table.paper})", title_justify="left")
    for head in ("", row.label, *([other.label] if other.id != row.id else [])):
        grid.add_column(head, justify="right" if head else "left")
    for column in table.columns:
        values = [entry.paper.get(column.metric) for entry in (row, other)[: len(grid.columns) - 1]]
        texts = ["none" if value is None else f"{value:.{column.digits}f}" for value in values]
        grid.add_row(f"{column.title} ({column.metric}, {column.better} is better)", *texts)
    console.print(grid)
    source = f"Source: {_first_comment(conf_file(f'table/{table.id}.yaml'), skip=1)} {table.note}".rstrip()
    console.print(source, soft_wrap=not console.is_terminal)


def _print_choices(table: Table, console: Console) -> None:
    if table.choices:
        heading = "what the paper leaves open, and what we chose" if table.paper else "what we chose"
        console.print(f"\n{heading}", style="italic")
        grid = Grid.grid(padding=(0, 1))
        for text in table.choices:
            grid.add_row(" -", Text(text))
        console.print(grid)


def _print_settings(table: Table, row: Row, budget: str, described: Experiment, console: Console) -> None:
    """Print every setting that is part of the run's identity, and the file that set it."""
    grid = Grid(
        box=SIMPLE_HEAD,
        title="settings that name the run: those that differ from the neutral defaults of highway/config/",
        title_justify="left",
    )
    for head in ("setting", "value", "set by"):
        grid.add_column(head, no_wrap=head == "setting")
    set_by = origins(table, row, budget)
    for key, value in flat(identity(described)["keys"]).items():
        setter = next((file for name, file in set_by.items() if name == key or name.startswith(f"{key}.")), "")
        grid.add_row(Text(key), Text(str(value)), setter)
    console.print(grid)


def _print_descriptions(described: Experiment, console: Console) -> None:
    """Print the descriptions of those settings that have one."""
    for key in flat(identity(described)["keys"]):
        section, *path = key.split(".")
        description = description_of(type(getattr(described, section)), path)
        if description:
            console.print(
                Text.assemble(f"{key}: ", (description, "dim")), soft_wrap=not console.is_terminal, markup=False
            )


def _first_comment(path: Path, skip: int = 0) -> str:
    """Return the comment at the top of a configuration file as one line of text, without its first `skip` lines."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), path.read_text().splitlines())
    return " ".join(line.lstrip("# ") for line in itertools.islice(lines, skip, None))


def _length(described: Experiment) -> str:
    trainer = described.trainer
    return f"{trainer.max_steps:,} steps" if trainer.max_steps else f"{trainer.max_epochs} epochs"


def parameters(described: Experiment) -> tuple[int, int]:
    """Count all parameters and the parameters of gates, on the meta device."""
    import torch

    from highway.describe import parameter_counts
    from highway.run.build import model

    with torch.device("meta"):
        counts = parameter_counts(model(described))
    return counts["total"], counts["gate"]


def origins(table: Table, row: Row, budget: str) -> dict[str, str]:
    """Return for each key of a row's configuration the file that sets it last; for a table file, also which part."""
    parts = {
        "recipe": table.recipe,
        f"row {row.id}": row.overrides,
        "choose": row.choice(budget),
        f"budget {budget}": table.budgets[budget],
        f"row {row.id} at budget {budget}": row.at_budget.get(budget, ()),
    }
    file = f"conf/table/{table.id}.yaml" if table.id in table_ids() else f"grids/{table.id}/table.yaml"
    part_of = {override: part for part, overrides in parts.items() for override in overrides}
    origins: dict[str, str] = {}
    for key, source in composer().origins(table.overrides(row, budget, seed=1)).items():
        in_a_file = source == NEUTRAL or source.startswith("conf/")
        in_the_table = f"{file} ({part_of[source]})" if source in part_of else "the command"
        origins[key] = source if in_a_file else in_the_table
    return origins
