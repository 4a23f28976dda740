"""Convergence figures as one would put them in a paper: one line a row, a band over the seeds."""

import math
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from highway.config.metrics import KINDS, METRICS
from highway.report.biases import draw_biases
from highway.report.collect import Collected, Sample, authors_logs
from highway.report.comparisons import draw_bars, draw_lengths, draw_scatter, draw_series, draw_times
from highway.report.states import draw_gate_values, draw_gradients
from highway.report.style import COLOURS, SPLITS, STYLE
from highway.sweep.table import Figure

matplotlib.use("Agg")


def draw(figure: Figure, collected: Collected, folder: Path) -> str:
    """Writes <id>.svg and <id>.png; the name without its ending."""
    with plt.rc_context(STYLE):
        canvas = DRAWN[figure.kind](figure, collected)
        origin = f"{collected.table.id}, budget {collected.budget}, {collected.caveat}"
        canvas.text(0.01, 0.005, origin, fontsize=7, color="#777777")
        folder.mkdir(parents=True, exist_ok=True)
        canvas.savefig(folder / f"{figure.id}.svg", metadata={"Date": None, "Creator": None})
        canvas.savefig(folder / f"{figure.id}.png", dpi=200, metadata={"Software": None})
        plt.close(canvas)
    return figure.id


def _curves(figure: Figure, collected: Collected) -> Any:
    """A panel for each metric and split, metrics below each other unless there is one split alone; below them, where
    asked, the same from the authors' logs."""
    logs = authors_logs(collected.table) if figure.logs else {}
    lines = [(metric, False) for metric in figure.metrics] + [(metric, True) for metric in figure.metrics if logs]
    beside = len(figure.splits) == 1 and not logs
    rows, columns = (1, len(lines)) if beside else (len(lines), len(figure.splits))
    share: Any = "row" if logs else True
    canvas, grid = plt.subplots(rows, columns, squeeze=False, sharex=share)
    axes = grid.T if beside else grid
    for axis_row, (metric, theirs) in zip(axes, lines, strict=True):
        for axis, split in zip(axis_row, figure.splits, strict=True):
            if theirs:
                _log_panel(axis, figure, collected, logs, split, metric)
            else:
                _panel(axis, figure, collected, split, metric)
    for axis in [*grid[-1], *(grid[len(figure.metrics) - 1] if logs else [])]:
        axis.set_xlabel(figure.over)
    handles, labels = axes[0][0].get_legend_handles_labels()
    across = 4 if max(map(len, labels), default=0) < 20 else 3
    canvas.legend(handles, labels, loc="upper center", ncols=min(len(labels), across), bbox_to_anchor=(0.5, 1.0))
    legend = 0.1 + 0.19 * math.ceil(len(labels) / across)  # inches
    height = 2.3 * rows + legend
    canvas.set_size_inches(max(3.6 * columns, 7.2), height)
    canvas.tight_layout(rect=(0, 0.05 / rows, 1, 1 - legend / height))
    return canvas


def _style(collected: Collected, row_id: str) -> dict[str, Any]:
    """A row keeps its colour in every figure of its table; beyond the colours, lines are dotted, and arms dashed."""
    number = [row.id for row in collected.table.rows].index(row_id)
    row = collected.table.rows[number]
    dots = ":" if number >= len(COLOURS) else "-"
    return {"color": COLOURS[number % len(COLOURS)], "label": row.label, "linestyle": "--" if row.arm else dots}


def _panel(axis: Axes, figure: Figure, collected: Collected, split: str, metric: str) -> None:
    highest, lower = [], METRICS[f"{split}_{metric}"].better == "lower"
    for row in collected.table.rows:
        samples = [sample for sample in collected.samples[row.id] if (split, metric) in sample.curves]
        if not samples or (figure.rows and row.id not in figure.rows):
            continue
        places, low, mean, high = _band(samples, split, metric, figure.over)
        style = _style(collected, row.id)
        axis.plot(places, mean, **style)
        if len(samples) > 1:
            axis.fill_between(places, low, high, color=style["color"], alpha=0.18, linewidth=0)
        if lower and mean[-1] < mean[0]:
            highest.append(mean[len(mean) // 20])
    axis.set_title(SPLITS[split], loc="left", fontsize=9)
    axis.set_ylabel(KINDS[metric][0])
    if highest:  # the first few points of a run would squeeze all others into the floor
        axis.set_ylim(top=max(highest) * 1.02)


def _log_panel(axis: Axes, figure: Figure, collected: Collected, logs: dict[str, Any], split: str, metric: str) -> None:
    """The authors' own curves, on the axis of their runs."""
    highest = []
    for row_id, curves in logs.items():
        if (split, metric) in curves and (not figure.rows or row_id in figure.rows):
            steps, _, values = zip(*curves[split, metric], strict=True)
            axis.plot(steps, values, **{**_style(collected, row_id), "linewidth": 1.0})
            highest.append(values[len(values) // 20])
    axis.set_title(f"{SPLITS[split]}, the authors' logs", loc="left", fontsize=9)
    axis.set_ylabel(KINDS[metric][0])
    axis.set_ylim(top=max(highest) * 1.02)


def _band(
    samples: list[Sample], split: str, metric: str, over: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean, lowest and highest over the seeds, at the steps that all of them have."""
    points = [sample.curves[split, metric] for sample in samples]
    if split == "train" and points[0][-1][1] >= 3:
        points = [_by_epoch(curve) for curve in points]
    curves = [{step: (epoch, value) for step, epoch, value in curve} for curve in points]
    steps = sorted(set.intersection(*(set(curve) for curve in curves)))
    values = np.array([[curve[step][1] for step in steps] for curve in curves])
    places = np.array([curves[0][step][0] if over == "epoch" else step for step in steps])
    return places, values.min(0), values.mean(0), values.max(0)


def _by_epoch(curve: list[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """The mean of each epoch, drawn at its end, as the papers draw training curves."""
    epochs: dict[int, list[tuple[float, float, float]]] = {}
    for point in curve:
        epochs.setdefault(math.ceil(point[1]), []).append(point)
    return [(inside[-1][0], epoch, sum(p[2] for p in inside) / len(inside)) for epoch, inside in epochs.items()]


DRAWN = {
    "curves": _curves,
    "biases": draw_biases,
    "times": draw_times,
    "scatter": draw_scatter,
    "bars": draw_bars,
    "series": draw_series,
    "gate_values": draw_gate_values,
    "gradients": draw_gradients,
    "lengths": draw_lengths,
}
