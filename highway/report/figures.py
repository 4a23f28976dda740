"""Convergence figures for a paper: a line for each row, with a band over the seeds."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from highway.config.metrics import KINDS, METRICS
from highway.report.bias_figures import draw_biases
from highway.report.collect import Collected, authors_logs
from highway.report.comparison_figures import draw_bars, draw_lengths, draw_scatter, draw_series, draw_times
from highway.report.curves import Curves, Point
from highway.report.sample import Sample
from highway.report.state_figures import draw_gate_values, draw_gradients
from highway.report.style import SPLITS, STYLE, Look, looks
from highway.sweep.table import Figure, Row

matplotlib.use("Agg")
OVER = {"epoch": "epoch", "step": "step", "seconds": "seconds of training", "tokens": "tokens read"}
# Labels of marks; matplotlib leaves them out of the legend
REPORTED, BAND, PAPER, ABOVE = "_reported", "_band", "_paper", "_above"
MARKS = {
    REPORTED: "dots: reported models",
    BAND: "bands: range of the seeds",
    PAPER: "thin dots: the paper's values",
    ABOVE: "out of view: rows that have not learned",
}


def draw(figure: Figure, collected: Collected, folder: Path) -> str:
    """Write <id>.svg and <id>.png; return the id."""
    with plt.rc_context(STYLE):
        canvas = DRAWN[figure.kind](figure, collected)
        drawn = {mark.get_label() for axis in canvas.axes for mark in (*axis.lines, *axis.collections)}
        marks = [legend for label, legend in MARKS.items() if label in drawn]
        origin = "; ".join([f"{collected.table.id}, budget {collected.budget}, {collected.caveat}", *marks])
        for axis in canvas.axes:
            if not axis.has_data():
                axis.set_title(f"{axis.get_title('left')}: no records", loc="left", fontsize=9)
        canvas.text(0.01, 0.005, origin, va="bottom", fontsize=7, color="#777777")
        folder.mkdir(parents=True, exist_ok=True)
        canvas.savefig(folder / f"{figure.id}.svg", metadata={"Date": None, "Creator": None})
        canvas.savefig(folder / f"{figure.id}.png", dpi=200, metadata={"Software": None})
        plt.close(canvas)
    return figure.id


def _curves(figure: Figure, collected: Collected) -> Any:
    """Draw a panel for each metric and split, and below them, if the figure asks for it, the authors' logs.

    Metrics are rows and splits columns; metrics of a single split stand side by side.
    """
    logs = authors_logs(collected.table) if figure.logs else {}
    lines = _lines(figure, collected)
    panel_rows = [(metric, False) for metric in figure.metrics] + [(metric, True) for metric in figure.metrics if logs]
    side_by_side = len(figure.splits) == 1 and not logs
    rows, columns = (1, len(panel_rows)) if side_by_side else (len(panel_rows), len(figure.splits))
    share: Any = "row" if logs else True
    canvas, grid = plt.subplots(rows, columns, squeeze=False, sharex=share)
    axes = grid.T if side_by_side else grid
    for axis_row, (metric, from_logs) in zip(axes, panel_rows, strict=True):
        for axis, split in zip(axis_row, figure.splits, strict=True):
            if from_logs:
                _log_panel(axis, figure, collected, logs, split, metric)
            else:
                _panel(axis, figure, collected, lines[split, metric], split, metric)
    for axis in [*grid[-1], *(grid[len(figure.metrics) - 1] if logs else [])]:
        axis.set_xlabel(OVER[figure.over])
    handles, labels = axes[0][0].get_legend_handles_labels()
    width = max(3.6 * columns, 7.2)
    canvas.set_size_inches(width, 2.3 * rows)
    across = _legend(canvas, handles, labels)
    legend = 0.1 + 0.19 * math.ceil(len(labels) / across)  # inches
    height = 2.3 * rows + legend
    canvas.set_size_inches(width, height)
    canvas.tight_layout(rect=(0, 0.05 / rows, 1, 1 - legend / height))
    return canvas


def _legend(canvas: Any, handles: list[Any], labels: list[str]) -> int:
    """Place the legend at the top, in as many columns as fit, and return their number."""
    across = 4 if max(map(len, labels), default=0) < 20 else 3
    while True:
        columns = min(len(labels), across)
        legend = canvas.legend(handles, labels, loc="upper center", ncols=columns, bbox_to_anchor=(0.5, 1.0))
        if across == 1 or legend.get_window_extent().width <= canvas.bbox.width:
            return across
        legend.remove()
        across -= 1


def _style(look: Look, row: Row) -> dict[str, Any]:
    return {"color": look.colour, "label": row.label, "linestyle": look.dash}


class Line(NamedTuple):
    """A row in a panel: the mean and the range of its seeds, and the points of the models that are reported."""

    row: Row
    seeds: int
    positions: np.ndarray
    low: np.ndarray
    mean: np.ndarray
    high: np.ndarray
    best: list[Point]


def _lines(figure: Figure, collected: Collected) -> dict[tuple[str, str], list[Line]]:
    """Return the lines of each panel, by split and metric. Row after row: the curves of one row fit into memory."""
    lines: dict[tuple[str, str], list[Line]] = {
        (split, metric): [] for metric in figure.metrics for split in figure.splits
    }
    for row in collected.table.rows:
        if figure.rows and row.id not in figure.rows:
            continue
        candidates = collected.finished(row.id) or collected.samples[row.id]  # diverged runs, if there is no other
        for (split, metric), of_panel in lines.items():
            samples = [sample for sample in candidates if (split, metric) in sample.outline]
            of_seeds = band([sample.curves[split, metric] for sample in samples], split, figure.over) if samples else ()
            if of_seeds and len(of_seeds[0]):  # seeds that diverged may have no step in common
                has_best = split == "valid" and collected.table.select == "best"
                best = [_best(sample, metric) for sample in samples] if has_best else []
                of_panel.append(Line(row, len(samples), *of_seeds, best))
    return lines


def _panel(axis: Axes, figure: Figure, collected: Collected, lines: Sequence[Line], split: str, metric: str) -> None:
    highest, row_looks, card = [], looks(collected), METRICS[f"{split}_{metric}"]
    unlearned = {line.row.id for line in lines if not collected.learned(line.row.id)}
    for row, seeds, positions, low, mean, high, best in lines:
        style = _style(row_looks[row.id], row)
        axis.plot(positions, mean, **style, marker="o" if len(positions) == 1 else "", markersize=4)
        if seeds > 1:
            axis.fill_between(positions, low, high, color=style["color"], alpha=0.18, linewidth=0, label=BAND)
        if best:
            axis.plot(
                [getattr(point, figure.over) for point in best],
                [point.value for point in best],
                "o",
                color=style["color"],
                markersize=3.5,
                label=REPORTED,
            )
        if collected.budget == "paper" and card.name in row.paper:
            value, colour = row.paper[card.name], style["color"]
            axis.axhline(value, color=colour, linewidth=0.7, linestyle=(0, (1, 3)), label=PAPER)
        if card.better == "lower" and mean[-1] < mean[0] and row.id not in unlearned:
            highest.append(mean[len(mean) // 20])
    axis.set_title(SPLITS[split], loc="left", fontsize=9)
    axis.set_ylabel(KINDS[metric][0])
    if highest:  # the first few points of a run would squeeze all others into the floor
        top = max(highest) * 1.02
        axis.set_ylim(top=top)
        if any(line.row.id in unlearned and line.mean[-1] > top for line in lines):
            lowest = axis.dataLim.ymin
            axis.set_ylim(bottom=lowest - 0.05 * (top - lowest))  # its margin was that of a longer axis
            axis.plot([], [], label=ABOVE)


def _best(sample: Sample, metric: str) -> Point:
    """Return the point of the epoch with the lowest validation loss: its model is the one reported."""
    loss = sample.curves.get(("valid", "loss"), sample.curves["valid", metric])
    step = min(loss, key=lambda point: point.value).step
    return next(point for point in sample.curves["valid", metric] if point.step == step)


def _log_panel(
    axis: Axes, figure: Figure, collected: Collected, logs: dict[str, Curves], split: str, metric: str
) -> None:
    """Draw the authors' own curves, on a separate axis of steps."""
    highest, row_looks = [], looks(collected)
    for row_id, curves in logs.items():
        if (split, metric) in curves and (not figure.rows or row_id in figure.rows):
            points = curves[split, metric]
            style = _style(row_looks[row_id], collected.table.row(row_id))
            axis.plot([point.step for point in points], [point.value for point in points], **style, linewidth=1.0)
            highest.append(points[len(points) // 20].value)
    axis.set_title(f"{SPLITS[split]}, the authors' logs", loc="left", fontsize=9)
    axis.set_ylabel(KINDS[metric][0])
    axis.set_ylim(top=max(highest) * 1.02)


def band(curves: list[list[Point]], split: str, over: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return positions on the axis `over`, and the lowest, mean and highest value over seeds at common steps."""
    if split == "train" and curves[0][-1].epoch >= 3:
        curves = [_by_epoch(curve) for curve in curves]
    by_step = [{point.step: point for point in curve} for curve in curves]
    steps = sorted(set.intersection(*(set(points) for points in by_step)))
    values = np.array([[points[step].value for step in steps] for points in by_step])
    positions = np.array([[getattr(points[step], over) for step in steps] for points in by_step])
    return positions.mean(0), values.min(0), values.mean(0), values.max(0)


def _by_epoch(curve: list[Point]) -> list[Point]:
    """Return the mean of each epoch at its end, as the papers draw training curves."""
    epochs: dict[int, list[Point]] = {}
    for point in curve:
        epochs.setdefault(math.ceil(point.epoch), []).append(point)
    return [
        points[-1]._replace(epoch=epoch, value=sum(point.value for point in points) / len(points))
        for epoch, points in epochs.items()
    ]


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
