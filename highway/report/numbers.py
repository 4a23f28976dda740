"""Read the records of a table as the numbers that statistics.py compares."""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from highway.config.metrics import METRICS, Metric
from highway.report.collect import Collected
from highway.report.counting import examples, is_sound
from highway.report.curves import Point
from highway.report.sample import Sample
from highway.report.statistics import Array


class Numbers:
    """The numbers of one table, whose rows share an axis of seeds: arrays (1, S)."""

    def __init__(self, collected: Collected) -> None:
        self.collected = collected
        self.select = collected.table.select
        self.seeds = sorted({sample.seed for sample in collected.every})
        self._floors: dict[tuple[str, bool], float] = {}  # a grid of thousands of rows asks for it each time

    def values(self, row: str, metric: str, log: bool) -> Array:
        values = np.full((1, len(self.seeds)), np.nan)
        for sample in self.collected.samples[row]:
            values[0, self.seeds.index(sample.seed)] = self._value(sample, metric, log)
        return values

    def _value(self, sample: Sample, metric: str, log: bool) -> float:
        """Return a value of which higher is better; -inf if the run failed, NaN if it does not count."""
        card = METRICS[metric]
        if card.measures_quality and not is_sound(sample, self.select):
            return -np.inf
        if not sample.finished or not sample.counts_for(metric):
            return np.nan
        value = sample.value(metric, self.select)
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

    def steps(self, row: str, than: str, metric: str) -> tuple[Array, Array]:
        """Return minus the steps after which `row` and `than` are as good as every run of `than` at its end.

        NaN if no run of `than` has learned.
        """
        card = METRICS[metric]
        samples = self.collected.samples
        sound = [sample for sample in samples[than] if is_sound(sample, self.select)]
        curves = [curve for sample in sound if (curve := sample.curve(card))]
        end = common_end(curves, card) if curves else None

        def steps_of(sample: Sample) -> float:
            curve = sample.curve(card)
            if end is None or (sample.finished and not curve):
                return np.nan
            step = first_reached(curve, end, card) if is_sound(sample, self.select) else None
            return -np.inf if step is None else -step

        arrays = []
        for name in (row, than):
            arrays.append(np.full((1, len(self.seeds)), np.nan))
            for sample in samples[name]:
                arrays[-1][0, self.seeds.index(sample.seed)] = steps_of(sample)
        return arrays[0], arrays[1]

    def step_floor(self, metric: str) -> float:
        """Return half of the longest interval between two validations."""
        card = METRICS[metric]
        curves = [[0.0, *(point.step for point in sample.curve(card))] for sample in self.collected.every]
        return max((later - step for curve in curves for step, later in itertools.pairwise(curve)), default=0.0) / 2


def common_end(curves: Sequence[Sequence[Point]], metric: Metric) -> float:
    """Return the value that every one of these curves has reached at its end: that of the worst."""
    ends = [curve[-1].value for curve in curves]
    return max(ends) if metric.better == "lower" else min(ends)


def first_reached(curve: Sequence[Point], value: float, metric: Metric) -> float | None:
    """Return the first step at which a curve is as good as `value`, or None."""
    return next((point.step for point in curve if metric.as_good(point.value, value)), None)
