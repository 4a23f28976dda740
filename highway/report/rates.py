"""The section of a report on learning rates that validation divides (`optimizer.schedule=plateau`)."""

import csv
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from highway.config.metrics import METRICS
from highway.config.yaml_file import read_yaml
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.report.collect import Collected
from highway.report.sample import Sample
from highway.report.sections import Block, GridCell, Head, Number, Paragraph, grid
from highway.sweep.table import Row

RULE = (
    "Validation decides when the learning rate of these runs is divided. Runs of a row in which that was at different "
    "epochs were trained differently, which is part of the spread over seeds."
)


class Divided(NamedTuple):
    """The divisions of a run's learning rate."""

    first: int | None  # the epoch after which it was first divided; None if it never was
    times: int


def described(collected: Collected, shown: Sequence[Row]) -> list[Block]:
    """Return the section; empty if no run's rate was divided. `shown` are the rows that the report lists."""
    table, card = collected.table, METRICS[collected.table.headline]
    runs = [(row, sample) for row in shown for sample in collected.finished(row.id) if sample.counts_for(card.name)]
    divisions = [(*run, divided) for run in runs if (divided := _divided(run[1]))]
    if not any(divided.times for *_, divided in divisions):
        return []
    lines: list[tuple[GridCell, ...]] = [
        (
            row.label,
            str(sample.seed),
            "never" if divided.first is None else str(divided.first),
            str(divided.times),
            Number(sample.value(card.name, table.select), f".{card.digits}f"),
        )
        for row, sample, divided in divisions
    ]
    titles = ("seed", "first divided after epoch", "times divided", card.name)
    heads = (Head("model"), *(Head(title, numeric=True) for title in titles))
    return [Paragraph.of(RULE, style="note"), grid(heads, lines)]


def _divided(sample: Sample) -> Divided | None:
    """Return the divisions of a run's rate, each at the end of an epoch.

    None if its schedule is another one, or if its configuration or its curve cannot be read.
    """
    with suppress(OSError, LookupError, TypeError, ValueError, ArithmeticError, csv.Error, Refused):
        return _divisions(sample)
    return None


def _divisions(sample: Sample) -> Divided | None:
    optimizer = read_yaml(RunDirectory(sample.directory).config)["optimizer"]
    if optimizer["schedule"] != "plateau":
        return None
    rates = sample.curves["train", "learning_rate"]
    lower = next((point.epoch for point in rates if point.value < optimizer["lr"]), None)
    times = round(math.log(optimizer["lr"] / rates[-1].value, optimizer["plateau"]["divide_by"]))
    return Divided(None if lower is None else math.floor(lower), times)
