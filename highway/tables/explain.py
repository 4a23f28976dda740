"""Explain the rows of a table before anything runs: equation, layers, parameters, the paper's numbers, command."""

import itertools
from pathlib import Path
from textwrap import wrap

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from highway.cards.card import where
from highway.cards.gates import GATES, READINGS
from highway.cards.optimisers import OPTIMISERS
from highway.config.compose import chosen, experiment
from highway.config.experiment import CARDS, Experiment
from highway.config.origins import NEUTRAL
from highway.config.origins import origins as origins_of
from highway.config.project import conf_file
from highway.errors import counted, listing
from highway.keys.schema import added, dotted
from highway.ledger.directory import RunDirectory
from highway.ledger.identity import identity
from highway.tables.matched import WIDENED, parameters
from highway.tables.reading import command, table_ids
from highway.tables.table import Row, Table
from highway.tables.typed import as_override, command_line, key_of

NUMBERS = 46  # characters that the columns of numbers take, with the space between columns


def explain_table(table: Table, budget: str, console: Console) -> None:
    """Print every row with its parameters and its length, then the claims, the recipe and the command."""
    title = f"{table.heading}, budget {budget}"
    rows = table.at(budget)
    stacked = console.width < NUMBERS + max(len(row.id) for row in rows) + max(len(row.label) for row in rows)
    grid = RichTable(box=SIMPLE_HEAD, title=title, title_justify="left")
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
        if rule := _chosen(row, budget):
            chosen.setdefault(rule, []).append(row.id)
    for rule, choosing in chosen.items():
        line = f"{listing(choosing)}: {rule}"
        console.print(line, soft_wrap=not console.is_terminal, markup=False)
    for quoted, claims in itertools.groupby(table.claims, lambda claim: claim.quoted):
        lines = [*filter(None, [quoted]), *(f"  claim: {claim.text}" for claim in claims)]
        console.print("\n".join(lines), soft_wrap=not console.is_terminal, highlight=False, markup=False)
    console.print(f"recipe: {' '.join(table.recipe)}", soft_wrap=True, markup=False)
    every = command(table, budget)
    if any(row.extra for row in rows):
        console.print(f"rows of the paper: {every}", soft_wrap=True, markup=False)
        every += " extra_rows=true"
    console.print(f"all rows: {every}", soft_wrap=True, markup=False)


def explain_row(table: Table, row: Row, budget: str, console: Console) -> None:
    """Print a row on one screen, for someone who has not read the paper, with the file that sets each value."""
    overrides = table.overrides(row, budget, seed=1)
    described = experiment(overrides)
    model = described.model
    extra = ", an extra row, which the paper lacks" if row.extra and table.paper else ""
    size = f"{counted(model.layers, 'layer')} of width {model.width:,}"
    entries = {
        "row": f"{row.label}  ({table.id} {row.id}, budget {budget}{extra})",
        "table": f"{table.caption}.",
        "purpose": _purpose(table, row),
        "source": (_first_comment(conf_file(f"table/{table.id}.yaml"), skip=1) or table.paper) if table.paper else "",
        "model": f"{described.model_card.description} Here {size}.",
        **_gates(described),
        **_replaced(described),
        "data": _first_comment(conf_file(f"dataset/{chosen(overrides)['dataset']}.yaml")),
        "length": _length(described),
        "choice": _chosen(row, budget),
        "parameters": _parameters_in_words(table, row, described, budget),
        "paper": _numbers(table, row),
    }
    grid = RichTable(box=None, show_header=False, padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(max_width=104)
    for name, text in entries.items():
        if text:
            grid.add_row(name, Text(text))
    console.print(grid)
    _print_settings(table, row, budget, described, console)
    typed = table.time_command(budget) if table.timed else command_line(overrides)
    if not table.timed:
        console.print(f"run      {RunDirectory.of(described).path}", soft_wrap=True, highlight=False, markup=False)
    console.print(f"command  {typed}", soft_wrap=True, highlight=False, markup=False)


def _purpose(table: Table, row: Row) -> str:
    """Say what a row with the parameters of another is for; "" for any other row."""
    if not row.parameters_of:
        return ""
    other = table.row(row.parameters_of).label
    return f"A control: without its gate, but with as many parameters as {other}: what that row gains by size alone."


def _chosen(row: Row, budget: str) -> str:
    """Say what validation chooses, or has chosen, for a row; "" if it chooses nothing at this budget."""
    if not row.choose or not row.choose.at(budget):
        return ""
    stated = row.chosen.get(budget)
    if stated:
        return f"{' '.join(stated)} was chosen {row.choose.rule}."
    return f"chosen {row.choose.rule}; the first is used until all are compared."


def _gates(described: Experiment) -> dict[str, str]:
    """Describe every gate that acts: what it does, its equation, its code and its locations."""
    if not described.gates:
        residual = described.gate.residual
        reason = f": `layers` leaves none for gate.residual={residual}" if residual != "none" else ""
        return {"gate": f"No gate is added to any layer{reason}."}
    descriptions, equations, files, options = [], [], [], []
    for interface, name in described.gates.items():
        card = GATES[interface][name]
        activation = described.gate.activation_of(interface)
        psi = f",  psi = {activation}{' (there is no W1)' if activation == 'one' else ''}" if activation else ""
        descriptions.append(card.description)
        equations.append(f"{card.equation}{psi}\n{READINGS[interface]}; * is elementwise.")
        section = "gate" if interface == "residual" else f"gate.{interface}"
        chosen = described.gate if interface == "residual" else getattr(described.gate, interface)
        shared = CARDS[section].shared
        options += [as_override(f"{section}.{key}", value) for key, value in added(chosen, shared).items()]
        for key, field in shared.model_fields.items():
            value = getattr(chosen, key)
            if key in (card.reads or ()) and key != "activation" and value != field.default:
                options.append(f"{as_override(f'{section}.{key}', value)}: {field.description}")
        files.append(where(card.code))
    texts = {"gate": descriptions, "equation": equations, **({"options": options} if options else {}), "code": files}
    return {name: "\n".join(lines) for name, lines in texts.items()} | {"where": _where(described)}


def _replaced(described: Experiment) -> dict[str, str]:
    """Describe the optimiser, and the task, schedule and callback that replace those of the recipe, with options."""
    cards = {"optimizer": OPTIMISERS[described.optimizer.name], **described.replaced}
    entries = {}
    for kind, card in cards.items():
        options = added(getattr(described, kind), CARDS[kind].shared)
        typed = " ".join(as_override(f"{kind}.{key}", value) for key, value in options.items())
        entries[kind] = "\n".join(filter(None, (card.description, card.equation, typed, *_file(card.code))))
    return entries


def _file(code: str) -> list[str]:
    """Return the file of a card's code, if it is one of this project or of yours."""
    return [] if code.startswith("torch.") else [where(code)]


def _where(described: Experiment) -> str:
    """Name the locations of the gates, and the layers that have them."""
    parts = []
    for location, gated in described.gating.layers.items():
        if gated:
            every = len(gated) == described.model.layers
            numbers = "every layer" if every else f"layers {', '.join(map(str, gated))} of {described.model.layers}"
            parts.append(f"the {location.replace('_', '-')} sublayer of {numbers}")
    score = described.gate.score
    if score.name != "none":
        earlier = "all earlier layers" if score.accumulated else f"up to {counted(score.predecessors, 'earlier layer')}"
        parts.append(f"the scores of {', '.join(score.attention)} attention, from layer 2 on, each reading {earlier}")
    if described.gate.state.name != "none":
        parts.append(f"the state {', '.join(described.model_card.locations['state'])} at every step")
    return " and ".join(parts)


def _parameters_in_words(table: Table, row: Row, described: Experiment, budget: str) -> str:
    total, gate = parameters(described)
    counts, other = f"{total:,}, of which {gate:,} in gates", table.beside(row.id)
    if other.id == row.id:
        return counts
    before = parameters(experiment(table.overrides(other, budget, seed=1)))[0]
    return f"{counts}; {total - before:+,} ({total / before - 1:+.1%}) compared with {other.label}"


def _numbers(table: Table, row: Row) -> str:
    """Return the paper's numbers for a row, and on a second line those for its baseline."""
    if not row.paper:
        return "The paper has no numbers for this row." if table.paper else ""
    rows = {entry.id: entry for entry in (row, table.beside(row.id)) if entry.paper}
    lines = []
    for entry in rows.values():
        columns = [column for column in table.columns if column.metric in entry.paper]
        lines.append(f"{entry.label}: " + ", ".join(f"{c.title} {c.text(entry.paper[c.metric])}" for c in columns))
    return "\n".join(lines)


def _print_settings(table: Table, row: Row, budget: str, described: Experiment, console: Console) -> None:
    """Print the settings that are part of the run's identity, grouped by the file that sets them."""
    set_by = origins(table, row, budget)
    settings: dict[str, list[str]] = {}  # file -> what it sets
    for key, value in dotted(identity(described)["keys"]).items():
        file = next((file for name, file in set_by.items() if name == key or name.startswith(f"{key}.")), NEUTRAL)
        settings.setdefault(file, []).append(as_override(key, value))
    console.print("\nsettings that differ from their neutral defaults, by the file that sets them:")
    for file, values in settings.items():
        line = f"{file}: {' '.join(values)}"
        lines = wrap(line, console.width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
        console.print("\n".join(lines), soft_wrap=True, highlight=False, markup=False)


def _first_comment(path: Path, skip: int = 0) -> str:
    """Return the comment at the top of a configuration file as one line of text, without its first `skip` lines."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), path.read_text().splitlines())
    return " ".join(line.lstrip("# ") for line in itertools.islice(lines, skip, None))


def _length(described: Experiment) -> str:
    trainer = described.trainer
    return f"{trainer.max_steps:,} steps" if trainer.max_steps else f"{trainer.max_epochs} epochs"


def origins(table: Table, row: Row, budget: str) -> dict[str, str]:
    """Return for each key of a row's configuration the file that sets it last; for a table file, also which part."""
    overrides = table.overrides(row, budget, seed=1)
    parts = {
        "recipe": table.recipe,
        f"row {row.id}": row.overrides,
        "choose": row.choice(budget),
        f"budget {budget}": table.budgets[budget],
        f"row {row.id} at budget {budget}": row.at_budget.get(budget, ()),
    }
    if row.parameters_of:
        matched = [override for override in overrides if key_of(override) == WIDENED]
        parts[f"row {row.id}, parameters_of: {row.parameters_of}"] = matched
    file = f"conf/table/{table.id}.yaml" if table.id in table_ids() else f"grids/{table.id}/table.yaml"
    part_of = {override: part for part, overrides in parts.items() for override in overrides}
    origins: dict[str, str] = {}
    for key, source in origins_of(overrides).items():
        in_a_file = source == NEUTRAL or source.startswith("conf/")
        in_the_table = f"{file} ({part_of[source]})" if source in part_of else "the command"
        origins[key] = source if in_a_file else in_the_table
    return origins
