"""Choose the contenders of a benchmark: a row of a table, our model with gates, public implementations of it."""

import time
from dataclasses import dataclass, field

import torch
from torch import nn

from highway.bench.contenders import lacks, rivals
from highway.bench.swapped import LayerAlone
from highway.config.compose import experiment as composed
from highway.config.experiment import Experiment
from highway.errors import Refused, listing
from highway.run.trial import Entry
from highway.sweep.reading import load_table, table_ids
from highway.sweep.table import Row, Table
from highway.sweep.typed import last_on_each_key

PRECISIONS = ("32", "bf16")


@dataclass(frozen=True)
class Field:
    """The contenders of one comparison, and remarks on what is missing from it."""

    row: Row
    entries: list[Entry]
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Asked:
    """The options of a benchmark's command line. They apply to every table."""

    row: str | None
    budget: str
    overrides: list[str]
    precisions: tuple[str, ...]
    device: str
    compiled: bool
    local_rnn: bool


def precisions(asked: str | None, device: str) -> tuple[tuple[str, ...], list[str]]:
    """Return the precisions to measure, and remarks. A CPU measures bf16 unasked only if bf16 is not slower."""
    if device != "cpu":
        return (asked,) if asked else PRECISIONS, []
    if asked == "32":
        return ("32",), []
    factor = bf16_factor()
    measured = f"a small training step takes {factor:.2f} times as long in bf16 as in fp32 on this processor"
    if asked or factor <= 1:
        return (asked,) if asked else PRECISIONS, [f"bf16: {measured}."]
    return ("32",), [f"bf16 is left out: {measured}. --precision bf16 measures it all the same."]


def bf16_factor() -> float:
    """Measure the time of a small training step in bf16 divided by its time in fp32, with the threads now set.

    Processors without bf16 instructions emulate them: factors of 10 and more were measured.
    """
    with torch.random.fork_rng(devices=[]):
        network, x = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)), torch.ones(128, 256)

    def seconds(bf16: bool) -> float:
        before = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            y = network(x)
        y.sum().backward()
        return time.perf_counter() - before

    tries = [(seconds(True), seconds(False)) for _ in range(4)]
    in_bf16, in_fp32 = (min(times[1:]) for times in zip(*tries, strict=True))  # the first try prepares the kernels
    return in_bf16 / in_fp32


def contenders(table: Table, asked: Asked) -> Field:
    """Choose the row of a table, and the contenders that are timed at its shape."""
    row, remarks = chosen(table, asked)
    described = shape(table, row, asked)
    if asked.local_rnn:
        alone = [
            LayerAlone(precision, described, asked.device, gathered=gathered)
            for precision in asked.precisions
            for gathered in (False, True)
        ]
        return Field(row, list(alone), remarks)
    entries: dict[str, Entry] = {}  # by name: a row that has a gate may equal one that is timed anyway
    for precision in asked.precisions:
        gated = [shape(table, row, asked, f"gate={gate}") for gate in described.model_card.timed]
        ours = [Entry(precision, each, asked.device) for each in (described, *gated)]
        ours += [Entry(precision, described, asked.device, compiled="default")] if asked.compiled else []
        entries |= {entry.name: entry for entry in (*ours, *rivals(described, precision, asked.device))}
    return Field(row, list(entries.values()), remarks)


def measurable(table: Table, asked: Asked) -> bool:
    """Return whether a benchmark of all tables has something to measure in this table."""
    if asked.budget not in table.budgets or (asked.row and asked.row not in [row.id for row in table.rows]):
        return False
    return not asked.local_rnn or any(not _problem(table, row, asked) for row in table.at(asked.budget))


def chosen(table: Table, asked: Asked) -> tuple[Row, list[str]]:
    """Return the row asked for, or else the first that can be measured as asked, and remarks on problems."""
    if asked.row:
        row = table.row(asked.row)
        problem = _problem(table, row, asked)
        if problem and asked.local_rnn:
            raise Refused(f"--local-rnn: {problem}. {_instead(table, asked)}")
        return row, [f"{problem}. {_instead(table, asked)}"] if problem else []
    first, *others = table.at(asked.budget)
    problem = _problem(table, first, asked)
    if not problem:
        return first, []
    for row in others:
        if not _problem(table, row, asked):
            return row, [f"{table.id} is measured at its row {row.id}: {problem}."]
    if asked.local_rnn:
        raise Refused(f"--local-rnn: no row of {table.id} has a LocalRNN. {_instead(table, asked)}")
    return first, [f"{problem}."]


def _problem(table: Table, row: Row, asked: Asked) -> str:
    """Return why a row cannot be measured as asked; empty if it can."""
    described = shape(table, row, asked)
    if asked.local_rnn:
        has = getattr(described.model, "local_layers", 0)
        return "" if has else f"row {row.id} of {table.id} has no LocalRNN (its model is {described.model.name})"
    missing = (lacks(kind, described) for kind in described.model_card.rivals)
    return next((f"{why} (row {row.id})" for why in missing if why), "")


def _instead(table: Table, asked: Asked) -> str:
    """Return what to type: a row of this table, or else another table, that can be measured as asked."""
    rows = [row.id for row in table.at(asked.budget) if not _problem(table, row, asked)]
    if rows:
        return f"Type --row {rows[0]}."
    if not asked.local_rnn:
        return "It is timed without that one."
    others = [other for other in map(load_table, table_ids(trained=True)) if other.id != table.id]
    fitting = [other.id for other in others if measurable(other, asked)]
    return f"Name a table that has one: {listing(fitting)}."


def shape(table: Table, row: Row, asked: Asked, *extra: str) -> Experiment:
    """Return a row's experiment with the vocabulary of its real data, whatever its budget reads."""
    overrides = last_on_each_key([*table.overrides(row, asked.budget, seed=1), *asked.overrides])
    described = composed([*overrides, *extra, "dataset.source=sample"])
    if sizes := getattr(described.dataset, "vocabulary", None):
        sizes.sample = sizes.files
    return described
