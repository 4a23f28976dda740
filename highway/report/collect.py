"""Join records with tables: the finished runs or the times of each row, and their numbers for statistics.py."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from highway.cards.datasets import NO_RESULT
from highway.cards.metrics import METRICS, OF_A_MODEL
from highway.config import home
from highway.config.experiment import Experiment
from highway.ledger.directory import RunDirectory, seed_directories
from highway.report.curves import Curves, mean_over, read_curves
from highway.report.sample import Sample, caveat_of, samples
from highway.report.times import timed_samples
from highway.tables.rows import Choices, composed, name_of_runs, overrides_of, with_choices
from highway.tables.table import Epochs, Row, Table

if TYPE_CHECKING:
    from highway.report.statistics import Array  # imports scipy, which the frames do without

WIDE = 0.05  # the deviation, as a share of the mean, above which the spread is shown


@dataclass(frozen=True)
class Summary:
    mean: float
    deviation: float | None  # over seeds (n - 1); None for one seed
    count: int
    spread: tuple[float, float, float] | None = None  # lowest, median, highest, where a mean would mislead

    def text(self, digits: int) -> str:
        """Return mean and deviation, or the median (lowest to highest).

        A deviation that these digits would round to 0 has one digit of its own.
        """
        if self.spread:
            lowest, median, highest = (f"{value:.{digits}f}" for value in self.spread)
            return f"{median} ({lowest} to {highest})"
        mean = f"{self.mean:.{digits}f}"
        if self.deviation is None:
            return mean
        rounded = f"{self.deviation:.{digits}f}"
        return f"{mean} ± {rounded if self.deviation == 0 or rounded.strip('0.') else f'{self.deviation:.1g}'}"


def summarise(values: Sequence[float], some_failed: bool = False) -> Summary | None:
    """Return mean and standard deviation, or None without values.

    If the deviation is above 5 % of the mean, or other runs of the row failed, the spread is shown instead.
    """
    if not values:
        return None
    mean, deviation = statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None
    misleads = deviation is not None and (some_failed or deviation > WIDE * abs(mean))
    spread = (min(values), statistics.median(values), max(values)) if misleads else None
    return Summary(mean, deviation, len(values), spread)


class Numbers:
    """The records of a table as the numbers that statistics.py compares: arrays (1, S)."""

    def __init__(self, collected: "Collected") -> None:
        self.collected = collected
        self.select = collected.table.select
        self._floors: dict[tuple[str, bool], float] = {}  # a grid of thousands of rows asks for it each time
        self._twins: dict[str, str] = {}  # name of runs -> the first row that has them
        for row in collected.table.rows:
            self._twins.setdefault(self._name(row.id), row.id)

    def _name(self, row: str) -> str:
        """Return the name of a row's runs; the rows of a timed table have none."""
        return self.collected.names.get(row, row)

    def twin(self, row: str) -> str:
        return self._twins[self._name(row)]

    def comparable(self, *rows: str) -> bool:
        return self.collected.comparable(*rows)

    def values(self, row: str, metric: str, log: bool, over: Epochs | None = None) -> "Array":
        values = [self._value(sample, metric, log, over) for sample in self.collected.samples[row]]
        return np.array([[value for value in values if not math.isnan(value)]])

    def _value(self, sample: Sample, metric: str, log: bool, over: Epochs | None) -> float:
        """Return a value of which higher is better; -inf if the run failed, NaN if it does not count."""
        card = METRICS[metric]
        if card.measures_quality and not sample.is_sound(self.select):
            return -math.inf
        if not sample.finished or not (over or sample.counts_for(metric)):
            return math.nan
        value = mean_over(sample.curve(card), over) if over else sample.value(metric, self.select)
        if log:
            value = math.log(value) if value > 0 else math.nan
        return -value if card.better == "lower" else value

    def floor(self, metric: str, log: bool) -> float:
        """Return half of what the metric resolves: a unit of its last digit, or one example of the test set."""
        if (metric, log) not in self._floors:
            self._floors[metric, log] = self._floor(metric, log)
        return self._floors[metric, log]

    def _floor(self, metric: str, log: bool) -> float:
        card = METRICS[metric]
        resolution = 10.0**-card.digits
        if card.kind == "accuracy":
            sizes = [sample.examples(card.split) for sample in self.collected.every]
            resolution = 1 / max(filter(None, sizes), default=1 / resolution)
        finished = (sample for sample in self.collected.every if sample.finished and sample.counts_for(metric))
        values = [value for sample in finished if (value := sample.value(metric, self.select)) > 0]
        return resolution / 2 / float(np.median(values)) if log and values else resolution / 2


@dataclass(frozen=True)
class Collected:
    """The records of a table at a budget."""

    table: Table
    budget: str
    samples: dict[str, tuple[Sample, ...]]  # by row, by seed
    overrides: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by row; the seed is arbitrary
    names: dict[str, str] = field(default_factory=dict)  # by row: the name of its runs
    failed: dict[str, int] = field(default_factory=dict)  # by row: how many seeds without a record failed here
    choices: Choices = field(default_factory=dict)  # what validation chose in each row
    measured: str = ""  # of a timed table: a clause on how its times were measured

    def experiment(self, row_id: str) -> Experiment:
        """Return the experiment of a row; its seed is arbitrary."""
        return composed(self.overrides[row_id])

    def finished(self, row_id: str) -> tuple[Sample, ...]:
        return tuple(sample for sample in self.samples[row_id] if sample.finished)

    def learned(self, row_id: str) -> tuple[Sample, ...]:
        """Return the runs of a row that finished and have learned."""
        return tuple(sample for sample in self.samples[row_id] if sample.is_sound(self.table.select))

    def has_ended(self, row_id: str) -> bool:
        """Return True if a run of a row finished, diverged or failed."""
        return bool(self.samples[row_id] or self.failed.get(row_id))

    def has_unlearned(self, row: Row) -> bool:
        """Return True if a run of a row finished and has not learned."""
        return len(self.learned(row.id)) < len(self.finished(row.id))

    def values(self, row_id: str, metric: str) -> list[float]:
        """Return a metric of the runs of a row that have learned; if it measures no quality, of all that finished."""
        runs = self.learned(row_id) if METRICS[metric].measures_quality else self.finished(row_id)
        return [sample.value(metric, self.table.select) for sample in runs if sample.counts_for(metric)]

    def by_seed(self, row_id: str, metric: str) -> dict[int, float]:
        """Return these values by seed; if no run has learned, those of all that finished."""
        some = METRICS[metric].measures_quality and self.learned(row_id)
        runs = (sample for sample in some or self.finished(row_id) if sample.counts_for(metric))
        return {sample.seed: sample.value(metric, self.table.select) for sample in runs}

    def summary(self, row_id: str, metric: str) -> Summary | None:
        """Return the mean and the spread of the values by seed; None without any."""
        some_failed = METRICS[metric].measures_quality and 0 < len(self.learned(row_id)) < len(self.samples[row_id])
        found = summarise(list(self.by_seed(row_id, metric).values()), some_failed)
        return replace(found, deviation=None) if found and metric in OF_A_MODEL else found

    @cached_property
    def numbers(self) -> Numbers:
        """The numbers of the table as they are compared."""
        return Numbers(self)

    def comparable(self, *row_ids: str) -> bool:
        """Return True if the runs of these rows share their data and their vocabulary."""
        return len({sample.data_identity for row_id in row_ids for sample in self.samples[row_id]}) <= 1

    @property
    def has_overrides(self) -> bool:
        """True with rows that have overrides of the command line: rows that have not run are then left out."""
        return bool(self.table.added)

    @property
    def of_ones_own(self) -> bool:
        """True for a table of one's own, and for rows of a paper's table with overrides of the command line."""
        return self.has_overrides or not self.table.paper

    @property
    def only_works(self) -> bool:
        """True for smoke runs of a paper's table: they show that it works, and nothing is compared."""
        return self.budget == "smoke" and not self.of_ones_own

    @property
    def as_published(self) -> bool:
        """True if every run is a published one."""
        published = home.REFERENCE.resolve()
        return all(sample.directory.resolve().is_relative_to(published) for sample in self.every)

    @property
    def runs(self) -> list[tuple[Row, Sample]]:
        """Every run with its row, row by row; rows may share a run."""
        return [(row, sample) for row in self.table.rows for sample in self.samples[row.id]]

    @property
    def every(self) -> list[Sample]:
        return [sample for _, sample in self.runs]

    @property
    def trials(self) -> list[Path]:
        """The directories of the trials that have ended."""
        return [trial.directory.path for found in self.choices.values() for trial in found.trials if trial.ended]

    @property
    def full_data(self) -> bool:
        """True if the data are the paper's; the time of a step does not depend on the data."""
        return (self.data_source == "files" and not self._texts_differ) or self.table.timed

    @property
    def _texts_differ(self) -> bool:
        """True if records with the same data set and form were trained on different texts."""
        data = [sample.result["data"] for sample in self.every]
        whole = [about for about in data if about["source"] == "files"]
        texts = {(about.get("name"), about.get("form"), str(about["sha256"])) for about in whole if "sha256" in about}
        return len(texts) > len({text[:2] for text in texts})

    @property
    def caveat(self) -> str:
        """A phrase on the data of all records, such as `full data`."""
        caveats = {caveat_of(sample.result["data"]) for sample in self.every}
        if not self.table.paper:
            caveats = {text.removesuffix(NO_RESULT) for text in caveats}
        if self._texts_differ:
            caveats.add("rows on different texts under one name, so they do not compare")
        return "; ".join(sorted(caveats)) or "no records"

    @property
    def data_source(self) -> str:
        sources = {sample.result["data"]["source"] for sample in self.every}
        return "/".join(sorted(sources))


def underway(collected: Collected, outputs_dir: Path) -> dict[tuple[str, str], Path]:
    """Return the curves.csv of runs that have begun here and not ended, by row and label (`seed 2, running`)."""
    paths = {}
    for row_id, name in collected.names.items():
        ended = {sample.directory for sample in collected.samples[row_id]}
        for folder in seed_directories(outputs_dir / "cells" / name):
            directory = RunDirectory(folder)
            if folder not in ended and directory.curves.exists() and not directory.done:
                paths[row_id, f"{folder.name.replace('seed', 'seed ')}, {directory.status}"] = directory.curves
    return paths


def authors_logs(table: Table) -> dict[str, Curves]:
    """Return the authors' own training curves by row; empty for a table without any."""
    path = home.REFERENCE / "series" / f"{table.id}.csv"
    return read_curves(path) if path.exists() else {}


def collect(table: Table, budget: str, outputs_dir: Path) -> Collected:
    """Return the records of a table at a budget; those of this machine come before published ones."""
    table, choices = with_choices(table, budget, outputs_dir)
    overrides = {row.id: overrides_of(table, row, budget) for row in table.at(budget)}
    if table.timed:
        timed, measured = timed_samples(table, budget, outputs_dir)
        return Collected(table, budget, timed, overrides, measured=measured)
    names = {row_id: name_of_runs(words) for row_id, words in overrides.items()}
    every_row = {row.id: samples(names[row.id], outputs_dir) if row.id in names else () for row in table.rows}
    failed = {row_id: _failed(name, outputs_dir, every_row[row_id]) for row_id, name in names.items()}
    return Collected(table, budget, every_row, overrides, names, failed=failed, choices=choices)


def _failed(name: str, outputs_dir: Path, ended: Sequence[Sample]) -> int:
    """Count the runs of this name that failed here; a seed that has a record, here or published, does not count."""
    seeds = {f"seed{sample.seed}" for sample in ended}
    folders = seed_directories(outputs_dir / "cells" / name)
    return sum(folder.name not in seeds and RunDirectory(folder).status == "failed" for folder in folders)
