"""The section of a report on learning rates that validation divides (`optimizer.schedule=plateau`)."""

import csv
import math
from collections.abc import Sequence
from typing import NamedTuple

from highway.config.metrics import METRICS
from highway.config.yaml_file import read_yaml
from highway.errors import Corrupt, Refused
from highway.files.kept import hashed_name
from highway.ledger.directory import RunDirectory
from highway.report.collect import Collected
from highway.report.sample import Sample
from highway.report.sections import Block, GridCell, Head, Number, Paragraph, grid
from highway.sweep.table import Row

RULE = (
    "A validation worse than those before it divides the learning rate of these runs. Seeds of a row in which this "
    "happens at different epochs were trained differently, and the spread over seeds contains that."
)


class Divided(NamedTuple):
    """The divisions of a run's learning rate."""

    first: float | None  # the epoch after which it was first divided; None if it never was
    times: int


def described(collected: Collected, shown: Sequence[Row]) -> list[Block]:
    """Return the section; empty if no run's rate was divided. `shown` are the rows that the report lists."""
    table, card = collected.table, METRICS[collected.table.headline]
    if table.kind == "timing":
        return []
    runs = [(row, sample) for row in shown for sample in collected.finished(row.id) if sample.counts_for(card.name)]
    divisions = _divisions(collected, [sample for _, sample in runs])
    found = [(row, sample, divided) for row, sample in runs if (divided := divisions[sample.result["sha256"]])]
    if not any(divided.times for *_, divided in found):
        return []
    lines: list[tuple[GridCell, ...]] = [
        (
            row.label,
            str(sample.seed),
            Number(divided.first, ".4g") if divided.first is not None else "never",
            str(divided.times),
            Number(sample.value(card.name, table.select), f".{card.digits}f"),
        )
        for row, sample, divided in found
    ]
    titles = ("seed", "first divided after epoch", "times divided", card.name)
    heads = (Head("model"), *(Head(title, numeric=True) for title in titles))
    return [Paragraph.of(RULE, style="note"), grid(heads, lines)]


def _divisions(collected: Collected, samples: Sequence[Sample]) -> dict[str, Divided | None]:
    """Return the divisions of each run by the checksum of its record; an earlier report may have kept them."""
    kept, name = collected.kept, hashed_name("rates", (collected.table.id, collected.budget))
    before = (kept.read(name, None) or {}) if kept and samples else {}
    known = {checksum: Divided(*about) if about else None for checksum, about in before.items()}
    runs = {sample.result["sha256"]: sample for sample in samples}
    found = {checksum: known[checksum] if checksum in known else _divided(run) for checksum, run in runs.items()}
    if kept and found != known:
        kept.write(name, None, found)
    return found


def _divided(sample: Sample) -> Divided | None:
    """Return the divisions of a run's rate; None if its schedule is another one, or its files do not say."""
    try:
        optimizer = read_yaml(RunDirectory(sample.directory).config)["optimizer"]
        if optimizer["schedule"] != "plateau":
            return None
        rates = sample.curves["train", "learning_rate"]
        validations = sample.curves["valid", "loss"]
        times = round(math.log(rates[0].value / rates[-1].value, optimizer["plateau"]["divide_by"]))
    except (OSError, LookupError, TypeError, ValueError, ArithmeticError, csv.Error, Corrupt, Refused):
        return None
    lower = next((point.epoch for point in rates if point.value < rates[0].value), None)
    first = max((point.epoch for point in validations if lower and point.epoch <= lower), default=None)
    return Divided(first, times)
