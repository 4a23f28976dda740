"""Read the records of a table as the numbers that statistics.py compares."""

import math

import numpy as np

from highway.cards.metrics import METRICS
from highway.report.collect import Collected
from highway.report.counting import examples, is_sound
from highway.report.curves import mean_over
from highway.report.sample import Sample
from highway.report.statistics import Array
from highway.tables.table import Epochs


class Numbers:
    """The numbers of one table: arrays (1, S)."""

    def __init__(self, collected: Collected) -> None:
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

    def values(self, row: str, metric: str, log: bool, over: Epochs | None = None) -> Array:
        values = [self._value(sample, metric, log, over) for sample in self.collected.samples[row]]
        return np.array([[value for value in values if not math.isnan(value)]])

    def _value(self, sample: Sample, metric: str, log: bool, over: Epochs | None) -> float:
        """Return a value of which higher is better; -inf if the run failed, NaN if it does not count."""
        card = METRICS[metric]
        if card.measures_quality and not is_sound(sample, self.select):
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
            sizes = [examples(sample, card.split) for sample in self.collected.every]
            resolution = 1 / max(filter(None, sizes), default=1 / resolution)
        finished = (sample for sample in self.collected.every if sample.finished and sample.counts_for(metric))
        values = [value for sample in finished if (value := sample.value(metric, self.select)) > 0]
        return resolution / 2 / float(np.median(values)) if log and values else resolution / 2
