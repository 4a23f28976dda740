"""Figures on the state of trained recurrent models: how open its gates are, and how far gradients reach back."""

from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from highway.report.collect import Collected
from highway.report.style import COLOURS, looks
from highway.sweep.table import Figure

SMALLEST = 1e-12  # the smallest norm of a gradient that is drawn


def draw_gate_values(figure: Figure, collected: Collected) -> Any:
    """Draw a histogram for each row, over all gates and seeds."""
    canvas, grid = plt.subplots(2, (len(figure.rows) + 1) // 2, figsize=(7.2, 4.4), squeeze=False, sharex=True)
    for axis, row_id in zip(grid.flat, figure.rows, strict=False):
        probes = [sample.probe("gate_values") for sample in collected.finished(row_id)]
        histograms = [histogram for probe in probes for histogram in probe.values()]
        title = collected.table.row(row_id).label
        if histograms:
            counts = np.sum(histograms, axis=0)
            edges = np.linspace(0, 1, len(counts) + 1)
            axis.stairs(counts / counts.sum(), edges, fill=True, color=COLOURS[0])
            mean = float((counts * (edges[:-1] + edges[1:]) / 2).sum() / counts.sum())
            axis.axvline(mean, color=COLOURS[1], linewidth=1.0)
            axis.annotate(
                f"mean {mean:.3f}", (mean, 1), xycoords=("data", "axes fraction"), xytext=(4, -10),
                textcoords="offset points", fontsize=8, color=COLOURS[1],
            )  # fmt: skip
            title += f": {counts.sum():,.0f} values"
        axis.set_title(title, loc="left", fontsize=9)
    for axis in grid[-1]:
        axis.set_xlabel("g")
    for axis in grid[:, 0]:
        axis.set_ylabel("share of values")
    canvas.tight_layout(rect=(0, 0.03, 1, 1))
    return canvas


def draw_gradients(figure: Figure, collected: Collected) -> Any:
    """Draw a panel for each group: the norm of the gradient of a step's loss by the state k steps before."""
    across = (len(figure.groups) + 1) // 2
    canvas, grid = plt.subplots(2, across, figsize=(7.2, 4.6), squeeze=False, sharex=True, sharey=True)
    names: dict[str, Any] = {}
    row_looks = looks(collected)
    for axis, (group, row_ids) in zip(grid.flat, figure.groups.items(), strict=False):
        for row_id in row_ids:
            colour = row_looks[row_id].colour
            probes = [sample.probe("gradient_norms") for sample in collected.finished(row_id)]
            norms = [probe["state"] for probe in probes if probe]
            if not norms:
                continue
            reach = min(map(len, norms))
            curves, steps = np.array([norm[:reach] for norm in norms]), np.arange(reach)
            (line,) = axis.plot(steps, curves.mean(0), color=colour)
            axis.fill_between(steps, curves.min(0), curves.max(0), color=colour, alpha=0.18, linewidth=0)
            names.setdefault(_kind(collected.table.row(row_id).label, group), line)
        axis.set_yscale("log")
        axis.set_title(group, loc="left", fontsize=9)
    for axis in grid[-1]:
        axis.set_xlabel("k, steps back")
    for axis in grid[:, 0]:
        axis.set_ylabel("norm of d loss[t] / d s[t-k]")
        axis.set_ylim(bottom=max(axis.get_ylim()[0], SMALLEST))
    canvas.legend(names.values(), names.keys(), loc="upper center", ncols=max(len(names), 1))
    canvas.tight_layout(rect=(0, 0.03, 1, 0.94))
    return canvas


def _kind(label: str, group: str) -> str:
    """Return the label of a row without the words of its group."""
    return " ".join(word for word in label.split() if word not in group.split())
