"""Write the figures of a report; those of curves are drawn here: a line for each row, with a band over the seeds."""

import math
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from highway.cards.metrics import KINDS, METRICS
from highway.report.collect import Collected, authors_logs
from highway.report.comparison_figures import draw_bars, draw_lengths, draw_scatter, draw_series, draw_times
from highway.report.curves import Point
from highway.report.probe_figures import draw_biases, draw_gate_values, draw_gradients
from highway.report.style import BAND, NOTE, SPLITS, STYLE, looks
from highway.tables.table import Figure, Row

matplotlib.use("Agg")
OVER = {"epoch": "epoch", "step": "step", "seconds": "seconds of training", "tokens": "tokens read"}
MOST_COLUMNS = 5  # of a legend
NOT_LEARNED = " (not learned)"
PAPER = f"{NOTE}thin dots: the paper's values"


def draw(figure: Figure, collected: Collected, folder: Path) -> str:
    """Write <id>.svg; return the id."""
    with plt.rc_context(STYLE):
        canvas = DRAWN[figure.kind](figure, collected)
        for axis in canvas.axes:
            if not axis.has_data():
                axis.set_axis_off()
                axis.set_title(f"{axis.get_title('left')}: no values")
        _add_legend(canvas)
        _add_foot(canvas, collected)
        folder.mkdir(parents=True, exist_ok=True)
        canvas.savefig(folder / f"{figure.id}.svg", metadata={"Date": None, "Creator": None})
        plt.close(canvas)
    return figure.id


def _add_legend(canvas: Any) -> None:
    """Explain each label of any panel once, in as many columns as fit; the canvas grows by the height of the legend."""
    handles: dict[str, Any] = {}
    for axis in canvas.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    for columns in range(min(len(handles), MOST_COLUMNS), 0, -1):
        rows = math.ceil(len(handles) / columns)
        across = math.ceil(len(handles) / rows)  # leaves no entry alone in the last row
        legend = canvas.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=across)
        if columns == 1 or legend.get_window_extent().width <= canvas.bbox.width:
            canvas.set_figheight(canvas.get_figheight() + 0.19 * rows)
            break
        legend.remove()


def _add_foot(canvas: Any, collected: Collected) -> None:
    """Write below the panels where the values come from, and what the marks mean that the legend leaves out."""
    artists = [artist for axis in canvas.axes for artist in (*axis.get_children(), *axis.containers)]
    labels = dict.fromkeys(str(artist.get_label()) for artist in artists)
    notes = [label.removeprefix(NOTE) for label in labels if label.startswith(NOTE)]
    origin = f"{collected.table.id}, budget {collected.budget}, {collected.caveat}"
    text = "\n".join([origin, "; ".join(notes)] if notes else [origin])
    canvas.supxlabel(text, x=0.01, ha="left", fontsize=7, color="#777777")


def draw_curves(figure: Figure, collected: Collected) -> Any:
    """Draw a panel for each metric and split, then, if the figure asks for them, panels of the authors' logs.

    Metrics are rows and splits columns; metrics of a single split stand side by side.
    """
    logs = authors_logs(collected.table) if figure.logs else {}
    panels = [(split, metric) for metric in figure.metrics for split in figure.splits]
    columns = len(figure.splits) if len(figure.splits) > 1 else len(panels)
    rows = len(panels) // columns * (2 if logs else 1)
    size = (max(3.6 * columns, 7.2), 2.4 * rows)
    canvas, grid = plt.subplots(rows, columns, figsize=size, squeeze=False, sharex="row")
    axes = dict(zip(panels, grid.flat, strict=False))
    log_axes = dict(zip(panels, grid.flat[len(panels) :], strict=False))
    row_looks = looks(collected)
    for row in (row for row in collected.table.rows if not figure.rows or row.id in figure.rows):
        fails = collected.samples[row.id] and not collected.learned(row.id)
        label = f"{row.label}{NOT_LEARNED}" if fails else row.label
        style = {"label": label, "color": row_looks[row.id].colour, "linestyle": row_looks[row.id].dash}
        for panel, axis in axes.items():  # row after row, since the curves of one row fit into memory
            _draw_row(axis, figure, collected, row, panel, style)
        for panel, axis in log_axes.items():
            if points := logs.get(row.id, {}).get(panel):
                axis.plot([point.step for point in points], [point.value for point in points], **style)
    for panel, axis in axes.items():
        _finish_panel(axis, panel, SPLITS[panel[0]], OVER[figure.over])
    for panel, axis in log_axes.items():
        _finish_panel(axis, panel, f"{SPLITS[panel[0]]}, the authors' logs", OVER["step"])
    return canvas


def _draw_row(
    axis: Axes, figure: Figure, collected: Collected, row: Row, panel: tuple[str, str], style: dict[str, Any]
) -> None:
    """Draw the mean and the range of a row's seeds, and the paper's value."""
    split, metric = panel
    candidates = collected.finished(row.id) or collected.samples[row.id]  # diverged runs, if there is no other
    curves = [sample.curves[panel] for sample in candidates if panel in sample.outline]
    positions, low, mean, high = band(curves, split, figure.over)
    if not len(positions):  # seeds that diverged may have no step in common
        return
    axis.plot(positions, mean, **style, marker="o" if len(positions) == 1 else "", markersize=4)
    if len(curves) > 1:
        axis.fill_between(positions, low, high, color=style["color"], alpha=0.18, linewidth=0, label=BAND)
    if collected.budget == "paper" and f"{split}_{metric}" in row.paper:
        value = row.paper[f"{split}_{metric}"]
        axis.axhline(value, color=style["color"], linewidth=0.7, linestyle=(0, (1, 3)), label=PAPER)


def _finish_panel(axis: Axes, panel: tuple[str, str], title: str, x_label: str) -> None:
    """Label a panel; leave out the first twentieth of its curves, which would squeeze all the rest into the floor."""
    split, metric = panel
    axis.set_title(title)
    axis.set_xlabel(x_label)
    axis.set_ylabel(KINDS[metric][0])
    curves = [np.asarray(line.get_ydata()) for line in axis.lines if NOT_LEARNED not in str(line.get_label())]
    if curves and METRICS[f"{split}_{metric}"].better == "lower":
        bottom = axis.dataLim.ymin
        top = max(float(curve[len(curve) // 20 :].max()) for curve in curves)
        margin = 0.04 * (top - bottom)
        axis.set_ylim(bottom - margin, top + margin)


def band(curves: list[list[Point]], split: str, over: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return positions on the axis `over`, and the lowest, mean and highest value over seeds at common steps."""
    if not curves:
        return (np.array([]),) * 4
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
    "curves": draw_curves,
    "biases": draw_biases,
    "times": draw_times,
    "scatter": draw_scatter,
    "bars": draw_bars,
    "series": draw_series,
    "gate_values": draw_gate_values,
    "gradients": draw_gradients,
    "lengths": draw_lengths,
}
