"""How fast rows train: the steps to what the baseline ends with, and how far two curves lie apart."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from highway.config.metrics import METRICS, Metric
from highway.report.collect import Collected, authors_logs
from highway.report.curves import Point
from highway.sweep.table import Row

Curve = Sequence[Point]


@dataclass(frozen=True)
class Reached:
    """The first step at which a curve is as good as every curve of the baseline at its end."""

    step: float
    share: float  # of the steps that the baseline itself needs


@dataclass(frozen=True)
class Convergence:
    row: Row
    by_seed: tuple[Reached | None, ...]  # None: never reached
    authors: tuple[Reached | None, ...]  # the same for the authors' log; empty without one
    differences: tuple[float, ...]  # between the row's curve and the baseline's, by seed


def convergence(collected: Collected) -> list[Convergence]:
    """Compare each row that has a curve with the first row, by the metric that the table file names in `reaches`."""
    table = collected.table
    if table.reaches is None:
        return []
    metric = METRICS[table.reaches]
    logs = {
        row_id: curve
        for row_id, curves in authors_logs(table).items()
        if (curve := curves.get((metric.split or "", metric.kind)))
    }
    baseline = table.rows[0].id
    baseline_curves = {sample.seed: curve for sample in collected.learned(baseline) if (curve := sample.curve(metric))}
    rows = []
    for row in table.rows:
        pairs = [
            (curve, baseline_curves[sample.seed])
            for sample in collected.finished(row.id)
            if sample.seed in baseline_curves and (curve := sample.curve(metric))
        ]
        log_pairs = [(logs[row.id], logs[baseline])] if row.id in logs and baseline in logs else []
        if not (pairs or log_pairs):
            continue
        differences = (mean_difference(*pair) for pair in pairs)
        rows.append(
            Convergence(
                row,
                _reached(pairs, list(baseline_curves.values()), metric),
                _reached(log_pairs, [logs[baseline]] if log_pairs else [], metric),
                tuple(difference for difference in differences if difference is not None),
            )
        )
    return rows


def common_end(curves: Sequence[Curve], metric: Metric) -> float:
    """Return the value that every one of these curves has reached at its end: that of the worst."""
    ends = [curve[-1].value for curve in curves]
    return max(ends) if metric.better == "lower" else min(ends)


def _reached(
    pairs: Sequence[Sequence[Curve]], baselines: Sequence[Curve], metric: Metric
) -> tuple[Reached | None, ...]:
    """Return when the first curve of each pair is as good as all baselines at their ends; the second is a baseline."""
    if not pairs:
        return ()
    end = common_end(baselines, metric)
    steps = [[first_reached(curve, end, metric) for curve in pair] for pair in pairs]
    return tuple(Reached(step, step / base) if step is not None and base is not None else None for step, base in steps)


def first_reached(curve: Sequence[Point], value: float, metric: Metric) -> float | None:
    """Return the first step at which a curve is as good as `value`, or None."""
    return next((point.step for point in curve if metric.as_good(point.value, value)), None)


def mean_difference(curve: Sequence[Point], reference: Sequence[Point]) -> float | None:
    """Return the signed area between two curves over the steps that both measured, divided by the number of steps.

    None if fewer than two steps are common to both.
    """
    values, reference_values = ({point.step: point.value for point in points} for points in (curve, reference))
    steps = sorted(values.keys() & reference_values.keys())
    if len(steps) < 2:
        return None
    area = np.trapezoid([values[step] - reference_values[step] for step in steps], steps)
    return float(area) / (steps[-1] - steps[0])
