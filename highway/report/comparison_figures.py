"""Figures that compare our rows with the paper's, and the lengths of training sentences."""

from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from highway.report.baselines import bleu_counts
from highway.report.collect import Collected
from highway.report.statistics import bleu, bootstrap, parse
from highway.report.style import COLOURS, group_colours
from highway.sweep.table import Column, Figure, Row

SCALE = "another scale: smaller models"
# Where the name of a point may stand: right of it, left, above, below, and further away; in points
BESIDE = [(4, 0, "left"), (-4, 0, "right"), (0, 7, "center"), (0, -7, "center"), (4, 9, "left"), (4, -9, "left"),
          (-4, 9, "right"), (-4, -9, "right"), (0, 14, "center"), (0, -14, "center")]  # fmt: skip


def draw_times(figure: Figure, collected: Collected) -> Any:
    """Draw the step time of each row relative to the first row: all rounds, their median, and the paper's hours."""
    rows = collected.table.rows
    canvas, axis = plt.subplots(figsize=(6.4, 1.1 + 0.34 * len(rows)))
    for height, row in enumerate(rows):
        for sample in collected.finished(row.id):
            ratios = sample.relative_times
            axis.plot(ratios, [height] * len(ratios), "|", color=COLOURS[0], alpha=0.4, markersize=9, label="a round")
            axis.plot(np.median(ratios), height, "o", color=COLOURS[0], markersize=5, label="their median")
        if "train_time_h" in row.paper:
            ratio = row.paper["train_time_h"] / rows[0].paper["train_time_h"]
            axis.plot(ratio, height, "D", color=COLOURS[1], markerfacecolor="none", markersize=6, label="paper's hours")
    axis.set_yticks(range(len(rows)), [row.label for row in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xlabel(f"time of a training step, relative to {rows[0].label}")
    handles, labels = axis.get_legend_handles_labels()
    distinct = dict(zip(labels, handles, strict=True))
    canvas.legend(distinct.values(), distinct.keys(), loc="upper center", ncols=len(distinct))
    canvas.tight_layout(rect=(0, 0.04, 1, 1 - 0.3 / canvas.get_figheight()))
    return canvas


def draw_scatter(figure: Figure, collected: Collected) -> Any:
    """Draw each row as a point, ours and the paper's side by side, with the least-squares line and the correlation.

    A side without values has no panel: the other one says so.
    """
    x_column, y_column = (_column(collected, metric) for metric in figure.metrics[::-1])
    of_source: dict[str, dict[str, tuple[float, float]]] = {"ours": {}, "paper": {}}
    for source, places in of_source.items():
        for row in (row for row in collected.table.rows if not row.extra):
            x_value, y_value = (_value(row, column.metric, collected, source) for column in (x_column, y_column))
            if x_value is not None and y_value is not None:
                places[row.id] = (x_value, y_value)
    shown = [source for source, places in of_source.items() if places] or ["paper"]
    canvas, axes = plt.subplots(1, len(shown), figsize=(7.2, 3.4), squeeze=False)
    for axis, source in zip(axes[0], shown, strict=True):
        points, title = list(of_source[source].values()), source
        for place in points:
            axis.plot(*place, "o", color=COLOURS[0], markersize=4)
        if len(points) > 2:
            x, y = np.array(points, dtype=float).T
            slope, shift = np.polyfit(x, y, 1)
            axis.plot([x.min(), x.max()], [slope * end + shift for end in (x.min(), x.max())], color=COLOURS[1], lw=1)
            title += f" (correlation {np.corrcoef(x, y)[0, 1]:+.2f})"
        absent = [other for other in of_source if other not in shown]
        title += f"; {absent[0]}: no values to draw (times count only if nothing else ran)" if absent else ""
        axis.set_title(title, loc="left", fontsize=9)
        axis.set_xlabel(x_column.title)
        axis.set_ylabel(y_column.title)
    canvas.tight_layout(rect=(0, 0.03, 1, 1))
    for axis, source in zip(axes[0], shown, strict=True):
        _name_points(axis, of_source[source])
    return canvas


def _name_points(axis: Any, places: dict[str, tuple[float, float]]) -> None:
    """Write the name of each point beside it, where it covers no other name and no other point."""
    renderer: Any = axis.figure.canvas.get_renderer()
    taken: list[Any] = []
    dots = [axis.transData.transform(place) for place in places.values()]
    for name, place in places.items():
        overlaps: list[tuple[int, int, Any, Any]] = []
        for x, y, side in BESIDE:
            text = axis.annotate(
                name, place, (x, y), textcoords="offset points", ha=side, va="center", fontsize=5.5, color="#555555"
            )
            box = text.get_window_extent(renderer)
            crossed = sum(box.overlaps(other) for other in taken) + sum(box.contains(*dot) for dot in dots)
            outside = not axis.figure.bbox.contains(box.x1, box.y1)
            overlaps.append((crossed + outside, len(overlaps), text, box))
        best = min(overlaps, key=lambda each: each[:2])
        for each in overlaps:
            if each is not best:
                each[2].remove()
        taken.append(best[3])


def draw_bars(figure: Figure, collected: Collected) -> Any:
    """Draw a bar for each row, ours and the paper's; rows whose labels agree up to the comma stand side by side."""
    canvas, axes = plt.subplots(1, 2, figsize=(7.2, 3.0))
    column = _column(collected, figure.metrics[0])
    members = {group: [collected.table.row(row_id) for row_id in ids] for group, ids in figure.groups.items()}
    names = list(dict.fromkeys(_short(row) for rows in members.values() for row in rows))
    width, colours = 0.8 / len(members), group_colours(figure.groups, collected)
    explained: set[str] = set()  # what the error bars show
    for axis, source in zip(axes, ("ours", "paper"), strict=True):
        for number, (group, rows) in enumerate(members.items()):
            values = {_short(row): _value(row, column.metric, collected, source) for row in rows}
            heights = {name: value for name, value in values.items() if value is not None}
            positions = [names.index(name) + (number - (len(members) - 1) / 2) * width for name in heights]
            errors = None
            if source == "ours":
                ends = [_ends(row, column.metric, collected) for row in rows if _short(row) in heights]
                explained |= {words for _, _, words in ends if words}
                errors = [[low for low, _, _ in ends], [high for _, high, _ in ends]] if explained else None
            axis.bar(
                positions, list(heights.values()), width, color=colours[group], label=group, yerr=errors, capsize=2
            )
        axis.set_xticks(range(len(names)), names)
        axis.grid(axis="x", visible=False)
        words = [*sorted(explained), *([] if collected.budget == "paper" else [SCALE])] if source == "ours" else []
        axis.set_title(source, loc="left", fontsize=9)
        axis.set_xlabel("; ".join(words), fontsize=7, color="#777777")
        axis.set_ylabel(column.title)
    canvas.legend(*axes[1].get_legend_handles_labels(), loc="upper center", ncols=len(members))
    canvas.tight_layout(rect=(0, 0.03, 1, 0.93))
    return canvas


def draw_series(figure: Figure, collected: Collected) -> Any:
    """Draw a line for each group over the key that its rows set; a panel for each metric, ours and the paper's."""
    canvas, axes = plt.subplots(len(figure.metrics), 2, figsize=(7.2, 2.3 * len(figure.metrics) + 0.4), squeeze=False)
    colours = group_colours(figure.groups, collected)
    for (our_axis, paper_axis), metric in zip(axes, figure.metrics, strict=True):
        column = _column(collected, metric)
        for axis, source in ((our_axis, "ours"), (paper_axis, "paper")):
            for group, row_ids in figure.groups.items():
                rows = {float(row.sets(figure.along) or 0): row for row in map(collected.table.row, row_ids)}
                values = {x: _value(row, metric, collected, source) for x, row in rows.items()}
                line = {x: value for x, value in values.items() if value is not None}
                axis.plot(list(line), list(line.values()), "o-", color=colours[group], markersize=4, label=group)
                if source == "ours":
                    for x in line:
                        samples = collected.finished(rows[x].id)
                        select = collected.table.select
                        seeds = [sample.value(metric, select) for sample in samples if sample.counts_for(metric)]
                        axis.plot([x] * len(seeds), seeds, "_", color=colours[group], alpha=0.6)
                axis.set_xticks(list(rows))
            scale = "" if collected.budget == "paper" else f" ({SCALE})"
            axis.set_title(f"{source}{scale if source == 'ours' else ''}", loc="left", fontsize=9)
            axis.set_ylabel(column.title)
        if collected.budget == "paper":  # smaller budgets have another range of values
            limits = (our_axis.get_ylim(), paper_axis.get_ylim())
            low, high = min(limit[0] for limit in limits), max(limit[1] for limit in limits)
            our_axis.set_ylim(low, high)
            paper_axis.set_ylim(low, high)
    for axis in axes[-1]:
        axis.set_xlabel(figure.along.rpartition(".")[2])
    canvas.legend(*axes[0][1].get_legend_handles_labels(), loc="upper center", ncols=len(figure.groups))
    canvas.tight_layout(rect=(0, 0.03, 1, 0.94))
    return canvas


def draw_lengths(figure: Figure, collected: Collected) -> Any:
    """Draw the number of training sentences by length in words, for each language, by the first record that has it."""
    records = [sample.result["data"] for sample in collected.every]
    sides: dict[str, Any] = next((data["words"] for data in records if "words" in data), {})
    canvas, (axes,) = plt.subplots(1, len(sides) or 1, figsize=(7.2, 2.8), sharey=True, squeeze=False)
    for axis, (side, statistics) in zip(axes, sorted(sides.items(), reverse=True), strict=False):
        counts = statistics["sentences_by_length"]
        axis.bar(range(len(counts)), counts, width=1.0, color=COLOURS[0], edgecolor="white", linewidth=0.3)
        for value, name, line in ((statistics["mean"], "mean", "-"), (statistics["median"], "median", "--")):
            axis.axvline(value, color=COLOURS[1], linewidth=1.0, linestyle=line, label=f"{name} {value:g}")
        axis.set_title(f"{side}: {statistics['distinct']:,} different words", loc="left", fontsize=9)
        axis.set_xlabel("words in a sentence")
        axis.legend()
    axes[0].set_ylabel("sentences")
    canvas.tight_layout(rect=(0, 0.03, 1, 1))
    return canvas


def _column(collected: Collected, metric: str) -> Column:
    return next(column for column in collected.table.columns if column.metric == metric)


def _short(row: Row) -> str:
    return row.label.split(",")[0]


def _value(row: Row, metric: str, collected: Collected, source: str) -> float | None:
    """Return a metric of a row from the paper, or as the mean of our seeds."""
    if source == "paper":
        return row.paper.get(metric)
    ours = collected.summary(row.id, metric)
    return ours.mean if ours else None


def _ends(row: Row, metric: str, collected: Collected) -> tuple[float, float, str]:
    """Return how far the error bar of a row reaches below and above its mean, and what it shows; zeros for no bar."""
    samples = [sample for sample in collected.finished(row.id) if sample.counts_for(metric)]
    values = [sample.value(metric, collected.table.select) for sample in samples]
    if len(values) > 1:
        deviation = float(np.std(values, ddof=1))
        return deviation, deviation, "bars: deviation over seeds"
    counts = parse(bleu_counts(samples[0])) if metric == "bleu" and samples and bleu_counts(samples[0]) else None
    if counts is None:
        return 0.0, 0.0, ""
    low, high = bootstrap(counts, bleu, draws=1000)
    return max(values[0] - low, 0.0), max(high - values[0], 0.0), "bars: 95 % over test sentences"
