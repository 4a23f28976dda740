"""The figure of the settings that validation has chosen: the validation of each trial over the setting."""

import math
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from highway.config.metrics import METRICS
from highway.report.choices import setting
from highway.report.collect import Collected
from highway.report.style import COLOURS, PLAIN, pale
from highway.sweep.chosen import WHOLE, Decision
from highway.sweep.table import Figure, Row

ACROSS = 3  # panels side by side
DECADE = 10.0  # from this ratio on, values are drawn on a logarithmic axis


def draw_choices(figure: Figure, collected: Collected) -> Any:
    """Draw a panel for each row, and for each seed that chooses: a line for each rung and one for the whole run."""
    panels = [
        (collected.table.row(row_id), seed, found)
        for row_id, by_seed in collected.decisions.items()
        for seed, found in by_seed.items()
        if found.compares
    ]
    columns = min(len(panels), ACROSS)
    rows = math.ceil(len(panels) / columns)
    canvas, axes = plt.subplots(rows, columns, squeeze=False, figsize=(2.4 * max(columns, 2), 2.1 * rows + 0.5))
    for axis in axes.flat[len(panels) :]:
        axis.remove()
    for axis, (row, seed, found) in zip(axes.flat, panels, strict=False):
        draw_panel(axis, row, found)
        axis.set_title(
            row.label + (f", seed {seed}" if len(collected.decisions[row.id]) > 1 else ""), loc="left", fontsize=9
        )
    handles = {
        label: handle for axis in axes.flat for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    canvas.legend(handles.values(), handles.keys(), loc="upper center", ncols=len(handles), columnspacing=1.2)
    canvas.tight_layout(rect=(0, 0.05 / rows, 1, 1 - 0.3 / canvas.get_figheight()))
    return canvas


def draw_panel(axis: Axes, row: Row, found: Decision) -> None:
    """Draw the trials of a row: a line for each rung, a cross for each that diverged, a ring for the chosen one."""
    assert row.choose is not None
    names = [setting(trial) for trial in found.trials]
    try:
        places = [float(name) for name in names]
    except ValueError:  # texts, or several settings
        places = [float(number) for number in range(len(names))]
        axis.set_xticks(places, names, rotation=30, ha="right", fontsize=6)
    else:
        if min(places) > 0 and max(places) / min(places) >= DECADE:
            axis.set_xscale("log")
        axis.set_xticks(places, names)
        axis.minorticks_off()
    for number, share in enumerate(found.shares):
        colour = pale(COLOURS[0], 0.6 * (1 - number / max(len(found.shares) - 1, 1)))
        label = "the whole run" if share == WHOLE else f"{share:.0%} of the steps"
        values = [(at, trial.values[number]) for at, trial in zip(places, found.trials, strict=True)]
        known = sorted((at, value) for at, value in values if value is not None and math.isfinite(value))
        axis.plot([at for at, _ in known], [value for _, value in known], "o-", color=colour, markersize=4, label=label)
    for at, trial in zip(places, found.trials, strict=True):
        axis.plot(at, 0.5, alpha=0, transform=axis.get_xaxis_transform())  # a trial that waits has its place, too
        if trial.last is not None and not math.isfinite(trial.last):
            above = axis.get_xaxis_transform()
            axis.plot(at, 0.95, "x", color=COLOURS[1], transform=above, linestyle="none", label="diverged")
        if trial == found.chosen:
            ring: dict[str, Any] = {"markersize": 10, "markerfacecolor": "none", "color": PLAIN, "linestyle": "none"}
            axis.plot([at], [trial.last or math.nan], "o", **ring, label="chosen")
    axis.set_xlabel(" ".join(row.choose.keys))
    axis.set_ylabel(f"validation {METRICS[row.choose.by].title}", fontsize=7)
