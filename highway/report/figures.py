"""Convergence figures as one would put them in a paper: one line a row, a band over the seeds."""

import math
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from highway.report.collect import Collected, Sample
from highway.report.render import SOURCES
from highway.sweep.table import Figure

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
    """Writes <id>.svg and <id>.png: a panel for each metric and split; the name without its ending."""
    with plt.rc_context(STYLE):
        rows, columns = len(figure.metrics), len(figure.splits)
        canvas, axes = plt.subplots(rows, columns, figsize=(3.6 * columns, 2.6 * rows), squeeze=False, sharex=True)
        for axis_row, metric in zip(axes, figure.metrics, strict=True):
            for axis, split in zip(axis_row, figure.splits, strict=True):
                _panel(axis, collected, split, metric)
        for axis in axes[-1]:
            axis.set_xlabel("epoch")
        handles, labels = axes[0][0].get_legend_handles_labels()
        canvas.legend(handles, labels, loc="upper center", ncols=min(len(labels), 4), bbox_to_anchor=(0.5, 1.0))
        source = SOURCES.get(collected.data_source, collected.data_source)
        origin = f"{collected.table.id}, budget {collected.budget}, {source}"
        canvas.text(0.01, 0.005, origin, fontsize=7, color="#777777")
        canvas.tight_layout(rect=(0, 0.02, 1, 0.94))
        folder.mkdir(parents=True, exist_ok=True)
        canvas.savefig(folder / f"{figure.id}.svg", metadata={"Date": None, "Creator": None})
        canvas.savefig(folder / f"{figure.id}.png", dpi=200, metadata={"Software": None})
        plt.close(canvas)
    return figure.id


def _panel(axis: Axes, collected: Collected, split: str, metric: str) -> None:
    highest = []
    for number, row in enumerate(collected.table.rows):
        samples = [sample for sample in collected.samples[row.id] if (split, metric) in sample.curves]
        if not samples:
            continue
        epochs, low, mean, high = _band(samples, split, metric)
        colour = COLOURS[number % len(COLOURS)]
        axis.plot(epochs, mean, color=colour, label=row.label, linestyle="--" if row.arm else "-")
        if len(samples) > 1:
            axis.fill_between(epochs, low, high, color=colour, alpha=0.18, linewidth=0)
        highest.append(mean[len(mean) // 20])
    axis.set_title(TITLES.get(split, split), loc="left", fontsize=9)
    axis.set_ylabel(TITLES.get(metric, metric))
    if highest:  # the first few points of a run would squeeze all others into the floor
        axis.set_ylim(top=max(highest) * 1.02)


def _band(samples: list[Sample], split: str, metric: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean, lowest and highest over the seeds, at the steps that all of them have."""
    points = [sample.curves[split, metric] for sample in samples]
    if split == "train" and points[0][-1][1] >= 3:
        points = [_by_epoch(curve) for curve in points]
    curves = [{step: (epoch, value) for step, epoch, value in curve} for curve in points]
    steps = sorted(set.intersection(*(set(curve) for curve in curves)))
    values = np.array([[curve[step][1] for step in steps] for curve in curves])
    epochs = np.array([curves[0][step][0] for step in steps])
    return epochs, values.min(0), values.mean(0), values.max(0)


def _by_epoch(curve: list[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """The mean of each epoch, drawn at its end, as the papers draw training curves."""
    epochs: dict[int, list[tuple[float, float, float]]] = {}
    for point in curve:
        epochs.setdefault(math.ceil(point[1]), []).append(point)
    return [(inside[-1][0], epoch, sum(p[2] for p in inside) / len(inside)) for epoch, inside in epochs.items()]
