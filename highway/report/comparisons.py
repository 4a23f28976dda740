"""Figures that compare rows with each other and with the paper's, and the lengths of what they read."""

from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from highway.report.collect import Collected
from highway.report.style import COLOURS
from highway.sweep.table import Column, Figure, Row


def draw_times(figure: Figure, collected: Collected) -> Any:
    """Of every round the time of each row relative to the first row's, the median, and what the paper's hours say."""
    rows = collected.table.rows
    canvas, axis = plt.subplots(figsize=(6.4, 1.1 + 0.34 * len(rows)))
    for place, row in enumerate(rows):
        for sample in collected.finished(row.id):
            ratios = sample.relative_times
            axis.plot(ratios, [place] * len(ratios), "|", color=COLOURS[0], alpha=0.4, markersize=9, label="a round")
            axis.plot(np.median(ratios), place, "o", color=COLOURS[0], markersize=5, label="their median")
        if "train_time_h" in row.paper:
            ratio = row.paper["train_time_h"] / rows[0].paper["train_time_h"]
            axis.plot(ratio, place, "D", color=COLOURS[1], markerfacecolor="none", markersize=6, label="paper's hours")
    axis.set_yticks(range(len(rows)), [row.label for row in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xlabel(f"time of a training step, relative to {rows[0].label}")
    handles, labels = axis.get_legend_handles_labels()
    distinct = dict(zip(labels, handles, strict=True))
    canvas.legend(distinct.values(), distinct.keys(), loc="upper center", ncols=len(distinct))
    canvas.tight_layout(rect=(0, 0.04, 1, 1 - 0.3 / canvas.get_figheight()))
    return canvas


def draw_scatter(figure: Figure, collected: Collected) -> Any:
    """A point a row, ours and the paper's side by side, each with the line of least squares and its correlation."""
    canvas, axes = plt.subplots(1, 2, figsize=(7.2, 3.4))
    over, of = (_column(collected, metric) for metric in figure.metrics[::-1])
    rows = [row for row in collected.table.rows if not row.arm]
    for axis, title in zip(axes, ("ours", "paper"), strict=True):
        points = []
        for row in rows:
            values = [_of_row(row, metric, collected, title) for metric in (over.metric, of.metric)]
            if None not in values:
                points.append(values)
                axis.plot(*values, "o", color=COLOURS[0], markersize=4)
                axis.annotate(row.id, values, xytext=(3, 3), textcoords="offset points", fontsize=5.5, color="#555555")
        if len(points) > 2:
            x, y = np.array(points, dtype=float).T
            slope, shift = np.polyfit(x, y, 1)
            axis.plot([x.min(), x.max()], [slope * end + shift for end in (x.min(), x.max())], color=COLOURS[1], lw=1)
            title += f" (correlation {np.corrcoef(x, y)[0, 1]:+.2f})"
        axis.set_title(title, loc="left", fontsize=9)
        axis.set_xlabel(over.title)
        axis.set_ylabel(of.title)
    canvas.tight_layout(rect=(0, 0.03, 1, 1))
    return canvas


def draw_bars(figure: Figure, collected: Collected) -> Any:
    """The rows of each group next to those of the others, ours and the paper's; a row is called by its label up to the
    comma."""
    canvas, axes = plt.subplots(1, 2, figsize=(7.2, 3.0))
    column = _column(collected, figure.metrics[0])
    members = {group: [collected.table.row(row_id) for row_id in ids] for group, ids in figure.groups.items()}
    names = list(dict.fromkeys(_short(row) for rows in members.values() for row in rows))
    width = 0.8 / len(members)
    for axis, whose in zip(axes, ("ours", "paper"), strict=True):
        for number, (group, rows) in enumerate(members.items()):
            values = {_short(row): _of_row(row, column.metric, collected, whose) for row in rows}
            found = {name: value for name, value in values.items() if value is not None}
            places = [names.index(name) + (number - (len(members) - 1) / 2) * width for name in found]
            axis.bar(places, list(found.values()), width, color=COLOURS[number], label=group)
        axis.set_xticks(range(len(names)), names)
        axis.grid(axis="x", visible=False)
        axis.set_title(whose, loc="left", fontsize=9)
        axis.set_ylabel(column.title)
    canvas.legend(*axes[1].get_legend_handles_labels(), loc="upper center", ncols=len(members))
    canvas.tight_layout(rect=(0, 0.03, 1, 0.93))
    return canvas


def draw_series(figure: Figure, collected: Collected) -> Any:
    """Each group's rows as a line over what they set, a panel for each metric: ours, and beside it the paper's."""
    canvas, axes = plt.subplots(len(figure.metrics), 2, figsize=(7.2, 2.3 * len(figure.metrics) + 0.4), squeeze=False)
    for (ours, papers), metric in zip(axes, figure.metrics, strict=True):
        column = _column(collected, metric)
        for axis, whose in ((ours, "ours"), (papers, "paper")):
            for number, (group, row_ids) in enumerate(figure.groups.items()):
                rows = {float(collected.table.row(one).sets(figure.along) or 0): one for one in row_ids}
                values = {at: _of_row(collected.table.row(one), metric, collected, whose) for at, one in rows.items()}
                found = {at: value for at, value in values.items() if value is not None}
                axis.plot(list(found), list(found.values()), "o-", color=COLOURS[number], markersize=4, label=group)
                if whose == "ours":
                    for at in found:
                        seeds = [one.value(metric, collected.table.select) for one in collected.finished(rows[at])]
                        axis.plot([at] * len(seeds), seeds, "_", color=COLOURS[number], alpha=0.6)
                axis.set_xticks(list(rows))
            axis.set_title(whose, loc="left", fontsize=9)
            axis.set_ylabel(column.title)
        if collected.budget == "paper":  # else the two are not of one size
            low, high = (end(ours.get_ylim()[side], papers.get_ylim()[side]) for side, end in ((0, min), (1, max)))
            ours.set_ylim(low, high)
            papers.set_ylim(low, high)
    for axis in axes[-1]:
        axis.set_xlabel(figure.along.rpartition(".")[2])
    canvas.legend(*axes[0][1].get_legend_handles_labels(), loc="upper center", ncols=len(figure.groups))
    canvas.tight_layout(rect=(0, 0.03, 1, 0.94))
    return canvas


def draw_lengths(figure: Figure, collected: Collected) -> Any:
    """How many sentences of the training text have how many words, for either language, as the first record says."""
    sides = collected.every[0].result["data"]["words"]
    canvas, axes = plt.subplots(1, len(sides), figsize=(7.2, 2.8), sharey=True)
    for axis, (side, words) in zip(axes, sorted(sides.items(), reverse=True), strict=True):
        counts = words["sentences_by_length"]
        axis.bar(range(len(counts)), counts, width=1.0, color=COLOURS[0], edgecolor="white", linewidth=0.3)
        for value, name, line in ((words["mean"], "mean", "-"), (words["median"], "median", "--")):
            axis.axvline(value, color=COLOURS[1], linewidth=1.0, linestyle=line, label=f"{name} {value:g}")
        axis.set_title(f"{side}: {words['distinct']:,} different words", loc="left", fontsize=9)
        axis.set_xlabel("words in a sentence")
        axis.legend()
    axes[0].set_ylabel("sentences")
    canvas.tight_layout(rect=(0, 0.03, 1, 1))
    return canvas


def _column(collected: Collected, metric: str) -> Column:
    return next(one for one in collected.table.columns if one.metric == metric)


def _short(row: Row) -> str:
    return row.label.split(",")[0]


def _of_row(row: Row, metric: str, collected: Collected, whose: str) -> float | None:
    if whose == "paper":
        return row.paper.get(metric)
    samples = [sample for sample in collected.finished(row.id) if sample.tells(metric)]
    return float(np.mean([sample.value(metric, collected.table.select) for sample in samples])) if samples else None
