"""Convergence figures as one would put them in a paper: one line a row, a band over the seeds."""

import math
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from highway.report.biases import draw_biases
from highway.report.collect import Collected, Sample, authors_logs
from highway.report.render import SOURCES
from highway.sweep.table import Figure, Row

matplotlib.use("Agg")
COLOURS = ("#222222", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")  # Okabe and Ito
TITLES = {
    "train": "training",
    "valid": "validation",
    "loss": "loss (nats)",
    "bpc": "bits per character",
    "ppl": "perplexity",
}
STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "legend.frameon": False,
    "svg.hashsalt": "highway",  # the same records give the same file
    "svg.fonttype": "none",
}


def draw(figure: Figure, collected: Collected, folder: Path) -> str:
    """Writes <id>.svg and <id>.png; the name without its ending."""
    with plt.rc_context(STYLE):
        canvas = KINDS[figure.kind](figure, collected)
        source = SOURCES.get(collected.data_source, collected.data_source)
        origin = f"{collected.table.id}, budget {collected.budget}, {source}"
        canvas.text(0.01, 0.005, origin, fontsize=7, color="#777777")
        folder.mkdir(parents=True, exist_ok=True)
        canvas.savefig(folder / f"{figure.id}.svg", metadata={"Date": None, "Creator": None})
        canvas.savefig(folder / f"{figure.id}.png", dpi=200, metadata={"Software": None})
        plt.close(canvas)
    return figure.id


def _curves(figure: Figure, collected: Collected) -> Any:
    """A panel for each metric and split; below them, where asked, the same from the authors' logs."""
    logs = authors_logs(collected.table) if figure.logs else {}
    lines = [(metric, False) for metric in figure.metrics] + [(metric, True) for metric in figure.metrics if logs]
    rows, columns = len(lines), len(figure.splits)
    share: Any = "row" if logs else True
    canvas, axes = plt.subplots(rows, columns, figsize=(3.6 * columns, 2.6 * rows), squeeze=False, sharex=share)
    for axis_row, (metric, theirs) in zip(axes, lines, strict=True):
        for axis, split in zip(axis_row, figure.splits, strict=True):
            if theirs:
                _log_panel(axis, figure, collected, logs, split, metric)
            else:
                _panel(axis, figure, collected, split, metric)
    for axis in [*axes[-1], *(axes[len(figure.metrics) - 1] if logs else [])]:
        axis.set_xlabel(figure.over)
    handles, labels = axes[0][0].get_legend_handles_labels()
    across = 4 if max(map(len, labels), default=0) < 20 else 3
    canvas.legend(handles, labels, loc="upper center", ncols=min(len(labels), across), bbox_to_anchor=(0.5, 1.0))
    height = 1 - 0.12 * math.ceil(len(labels) / across) / rows
    canvas.tight_layout(rect=(0, 0.02, 1, height))
    return canvas


def _style(collected: Collected, row_id: str) -> dict[str, Any]:
    """A row keeps its colour in every figure of its table; beyond the colours, lines are dotted, and arms dashed."""
    number = [row.id for row in collected.table.rows].index(row_id)
    row = collected.table.rows[number]
    dots = ":" if number >= len(COLOURS) else "-"
    return {"color": COLOURS[number % len(COLOURS)], "label": row.label, "linestyle": "--" if row.arm else dots}


def _panel(axis: Axes, figure: Figure, collected: Collected, split: str, metric: str) -> None:
    highest = []
    for row in collected.table.rows:
        samples = [sample for sample in collected.samples[row.id] if (split, metric) in sample.curves]
        if not samples or (figure.rows and row.id not in figure.rows):
            continue
        places, low, mean, high = _band(samples, split, metric, figure.over)
        style = _style(collected, row.id)
        axis.plot(places, mean, **style)
        if len(samples) > 1:
            axis.fill_between(places, low, high, color=style["color"], alpha=0.18, linewidth=0)
        highest.append(mean[len(mean) // 20])
    axis.set_title(TITLES.get(split, split), loc="left", fontsize=9)
    axis.set_ylabel(TITLES.get(metric, metric))
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
    axis.set_title(f"{TITLES.get(split, split)}, the authors' logs", loc="left", fontsize=9)
    axis.set_ylabel(TITLES.get(metric, metric))
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


def _times(figure: Figure, collected: Collected) -> Any:
    """Of every round the time of each row relative to the first row's, the median, and what the paper's hours say."""
    rows = collected.table.rows
    canvas, axis = plt.subplots(figsize=(6.4, 1.1 + 0.34 * len(rows)))
    for place, row in enumerate(rows):
        for sample in collected.finished(row.id):
            ratios = sample.relative_times
            axis.plot(ratios, [place] * len(ratios), "|", color=COLOURS[1], alpha=0.4, markersize=9, label="a round")
            axis.plot(np.median(ratios), place, "o", color=COLOURS[1], markersize=5, label="their median")
        if "train_time_h" in row.paper:
            ratio = row.paper["train_time_h"] / rows[0].paper["train_time_h"]
            axis.plot(ratio, place, "D", color=COLOURS[2], markerfacecolor="none", markersize=6, label="paper's hours")
    axis.set_yticks(range(len(rows)), [row.label for row in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xlabel(f"time of a training step, relative to {rows[0].label}")
    handles, labels = axis.get_legend_handles_labels()
    distinct = dict(zip(labels, handles, strict=True))
    canvas.legend(distinct.values(), distinct.keys(), loc="upper center", ncols=len(distinct))
    canvas.tight_layout(rect=(0, 0.04, 1, 1 - 0.3 / canvas.get_figheight()))
    return canvas


def _scatter(figure: Figure, collected: Collected) -> Any:
    """A point a row, ours and the paper's side by side, each with the line of least squares and its correlation."""
    canvas, axes = plt.subplots(1, 2, figsize=(7.2, 3.4))
    over, of = (next(one for one in collected.table.columns if one.metric == name) for name in figure.metrics[::-1])
    rows = [row for row in collected.table.rows if not row.arm]
    for axis, title in zip(axes, ("ours", "paper"), strict=True):
        points = []
        for row in rows:
            values = [_of_row(row, metric, collected, title) for metric in (over.metric, of.metric)]
            if None not in values:
                points.append(values)
                axis.plot(*values, "o", color=COLOURS[1], markersize=4)
                axis.annotate(row.id, values, xytext=(3, 3), textcoords="offset points", fontsize=5.5, color="#555555")
        if len(points) > 2:
            x, y = np.array(points, dtype=float).T
            slope, shift = np.polyfit(x, y, 1)
            axis.plot([x.min(), x.max()], [slope * end + shift for end in (x.min(), x.max())], color=COLOURS[2], lw=1)
            title += f" (correlation {np.corrcoef(x, y)[0, 1]:+.2f})"
        axis.set_title(title if points else f"{title}: no records", loc="left", fontsize=9)
        axis.set_xlabel(over.title)
        axis.set_ylabel(of.title)
    canvas.tight_layout(rect=(0, 0.03, 1, 1))
    return canvas


def _of_row(row: Row, metric: str, collected: Collected, whose: str) -> float | None:
    if whose == "paper":
        return row.paper.get(metric)
    samples = [sample for sample in collected.finished(row.id) if sample.tells(metric)]
    return float(np.mean([sample.value(metric, collected.table.select) for sample in samples])) if samples else None


KINDS = {"scatter": _scatter, "curves": _curves, "biases": draw_biases, "times": _times}
