"""Figures that compare our rows with the paper's, and the lengths of training sentences."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from highway.cards.metrics import METRICS
from highway.report.collect import Collected
from highway.report.style import COLOURS, DASHES, NOTE, PLAIN, SPLITS, looks
from highway.tables.table import Figure, Row

SOURCES = ("ours", "paper")
MARKERS = dict(zip(DASHES, ("o", "s", "^", "D"), strict=True))  # of points, as dashes are of lines
HATCHES = ("", "///", "...", "xxx")  # of bars, by group
DEVIATION = f"{NOTE}error bars: deviation over seeds"


def draw_times(figure: Figure, collected: Collected) -> Any:
    """Draw the step time of each row relative to the first row: all rounds, their median, and the paper's hours."""
    rows, row_looks = collected.table.rows, looks(collected)
    canvas, axis = plt.subplots(figsize=(6.4, 1.1 + 0.34 * len(rows)))
    for height, row in enumerate(rows):
        colour = row_looks[row.id].colour
        for sample in collected.finished(row.id):
            ratios = sample.relative_times
            axis.plot(ratios, [height] * len(ratios), "|", color=colour, alpha=0.4, markersize=9, label="a round")
            axis.plot(np.median(ratios), height, "o", color=colour, markersize=5, label="their median")
        if "train_time_h" in row.paper:
            ratio = row.paper["train_time_h"] / rows[0].paper["train_time_h"]
            axis.plot(ratio, height, "D", color=PLAIN, markerfacecolor="none", markersize=6, label="paper's hours")
    axis.set_yticks(range(len(rows)), [row.label for row in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xlabel(f"time of a training step, relative to {rows[0].label}")
    return canvas


def draw_scatter(figure: Figure, collected: Collected) -> Any:
    """Draw each row as a point, with the least-squares line and the correlation."""
    y_metric, x_metric = figure.metrics
    canvas, grid = _beside_the_paper(figure.metrics[:1], collected)
    row_looks = looks(collected)
    for axis, source in zip(grid[0], SOURCES, strict=True):
        points = []
        for row in (row for row in collected.table.rows if not row.extra):
            x, y = (_value(row, metric, collected, source) for metric in (x_metric, y_metric))
            if x is not None and y is not None:
                points.append((x, y))
                look = row_looks[row.id]
                axis.plot(x, y, MARKERS[look.dash], color=look.colour, markersize=5, alpha=0.8, label=row.label)
        if len(points) > 2:
            xs, ys = np.array(points).T
            slope, shift = np.polyfit(xs, ys, 1)
            ends = np.array([xs.min(), xs.max()])
            axis.plot(ends, slope * ends + shift, color=PLAIN, linewidth=1)
            axis.set_title(f"{axis.get_title('left')} (correlation {np.corrcoef(xs, ys)[0, 1]:+.2f})")
        axis.set_xlabel(_title(x_metric))
    return canvas


def draw_bars(figure: Figure, collected: Collected) -> Any:
    """Draw a bar for each row; rows whose labels agree up to the comma stand side by side, hatched by group."""
    metric, row_looks = figure.metrics[0], looks(collected)
    canvas, grid = _beside_the_paper((metric,), collected)
    short = {row.id: row.label.split(",")[0] for row in collected.table.rows}
    names = list(dict.fromkeys(short[row_id] for row_ids in figure.groups.values() for row_id in row_ids))
    width = 0.8 / len(figure.groups)
    for number, (group, row_ids) in enumerate(figure.groups.items()):
        style: Any = {"hatch": HATCHES[number % len(HATCHES)], "edgecolor": "white", "label": group}
        for row_id in row_ids:
            position = names.index(short[row_id]) + (number - (len(figure.groups) - 1) / 2) * width
            for axis, source in zip(grid[0], SOURCES, strict=True):
                value = _value(collected.table.row(row_id), metric, collected, source)
                if value is not None:
                    axis.bar(position, value, width, color=row_looks[row_id].colour, **style)
            _add_error(grid[0][0], position, row_id, metric, collected)
    for axis in grid[0]:
        axis.set_xticks(range(len(names)), names)
        axis.grid(axis="x", visible=False)
    return canvas


def draw_series(figure: Figure, collected: Collected) -> Any:
    """Draw a line for each group over the key that its rows set; a panel for each metric, ours and the paper's."""
    canvas, grid = _beside_the_paper(figure.metrics, collected)
    row_looks = looks(collected)
    for axes, metric in zip(grid, figure.metrics, strict=True):
        for group, row_ids in figure.groups.items():
            look = row_looks[row_ids[0]]
            rows = {float(row.sets(figure.along) or 0): row for row in map(collected.table.row, row_ids)}
            for axis, source in zip(axes, SOURCES, strict=True):
                values = {x: _value(row, metric, collected, source) for x, row in rows.items()}
                line = {x: value for x, value in values.items() if value is not None}
                if line:
                    style: Any = {"color": look.colour, "linestyle": look.dash, "marker": "o", "label": group}
                    axis.plot(list(line), list(line.values()), **style, markersize=4)
                axis.set_xticks(list(rows))
            for x, row in rows.items():
                _add_error(axes[0], x, row.id, metric, collected, look.colour)
    for axis in grid[-1]:
        axis.set_xlabel(figure.along.rpartition(".")[2])
    return canvas


def draw_lengths(figure: Figure, collected: Collected) -> Any:
    """Draw the number of training sentences by length in words, for each language, by the first record that has it."""
    records = [sample.result["data"] for sample in collected.every]
    sides: dict[str, Any] = next((data["words"] for data in records if "words" in data), {})
    canvas, (axes,) = plt.subplots(1, len(sides) or 1, figsize=(7.2, 2.8), sharey=True, squeeze=False)
    for axis, (side, statistics) in zip(axes, sorted(sides.items(), reverse=True), strict=False):
        counts, mean, median = (statistics[key] for key in ("sentences_by_length", "mean", "median"))
        axis.bar(range(len(counts)), counts, width=1.0, color=COLOURS[0], edgecolor="white", linewidth=0.3)
        axis.axvline(mean, color=COLOURS[1], linewidth=1.0, label="mean")
        axis.axvline(median, color=COLOURS[1], linewidth=1.0, linestyle="dashed", label="median")
        axis.set_title(f"{side}: mean {mean:g}, median {median:g}, vocabulary {statistics['distinct']:,}")
        axis.set_xlabel("words in a sentence")
    axes[0].set_ylabel("sentences")
    return canvas


def _beside_the_paper(metrics: Sequence[str], collected: Collected) -> tuple[Any, Any]:
    """Return a canvas with two panels for each metric, ours and the paper's; the paper's budget has one scale."""
    at_scale = collected.budget == "paper"
    size = (7.2, max(3.0, 2.3 * len(metrics)))
    canvas, grid = plt.subplots(len(metrics), 2, figsize=size, squeeze=False, sharey="row" if at_scale else False)
    for axes, metric in zip(grid, metrics, strict=True):
        for axis, source in zip(axes, SOURCES, strict=True):
            axis.set_title(source if at_scale or source == "paper" else f"ours (budget {collected.budget})")
            axis.set_ylabel(_title(metric))
    return canvas, grid


def _title(metric: str) -> str:
    card = METRICS[metric]
    return f"{SPLITS[card.split]} {card.title}" if card.split in SPLITS else card.full_title


def _value(row: Row, metric: str, collected: Collected, source: str) -> float | None:
    """Return a metric of a row from the paper, or as the mean of our seeds."""
    if source == "paper":
        return row.paper.get(metric)
    ours = collected.summary(row.id, metric)
    return ours.mean if ours else None


def _add_error(axis: Any, x: float, row_id: str, metric: str, collected: Collected, colour: str = PLAIN) -> None:
    """Draw the deviation over the seeds of a row."""
    ours = collected.summary(row_id, metric)
    if ours and ours.deviation is not None:
        axis.errorbar(x, ours.mean, yerr=ours.deviation, fmt="none", ecolor=colour, capsize=2, label=DEVIATION)
