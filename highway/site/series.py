"""Curves as pages draw them: columns of numbers, thinned if a page would hold too many."""

import json
import math
from pathlib import Path
from typing import Any

from highway.config.metrics import KINDS
from highway.report.collect import Collected, Curves, Point, Sample, authors_logs, underway
from highway.report.style import SPLITS, looks

ON_A_PAGE = 240_000  # the most points that the page of a table holds
FEWEST, MOST = 60, 600  # points of a curve on that page
EVERY = 10**9
COLUMNS = ("step", "epoch", "seconds", "tokens")


def table_curves(collected: Collected, outputs: Path, links: dict[Path, str]) -> dict[str, Any]:
    """Return what the page of a table draws: by row, the curves of each seed, and the authors' own."""
    by_row: dict[str, list[tuple[str, str, Curves]]] = {}  # name, page and curves of each seed
    for row in collected.table.at(collected.budget):
        done = [(_name(sample), links[sample.directory], sample.curves) for sample in collected.samples[row.id]]
        begun = underway(collected.experiments[row.id], outputs).items()
        by_row[row.id] = [*done, *((name, "", curves) for name, curves in begun)]
    logs, row_looks = authors_logs(collected.table), looks(collected)
    every = [curves for seeds in by_row.values() for *_, curves in seeds if curves]
    points = min(max(ON_A_PAGE // max(sum(map(len, every)), 1), FEWEST), MOST)
    rows = [
        {
            "id": row.id,
            "label": row.label,
            "colour": row_looks[row.id].colour,
            "dash": DASHES[row_looks[row.id].dash],
            "paper": row.paper if collected.budget == "paper" else {},
            "seeds": [
                {"name": name, "page": page, "splits": by_split(curves, points)}
                for name, page, curves in by_row.get(row.id, ())
                if curves
            ],
            "log": by_split(logs[row.id], points) if row.id in logs else None,
        }
        for row in collected.table.rows
        if by_row.get(row.id) or row.id in logs
    ]
    metrics = offered(list(dict.fromkeys(key for curves in every for key in curves)), collected)
    return {"rows": rows, "metrics": metrics, "thinned": points, "comparable": collected.budget == "paper"}


def _name(sample: Sample) -> str:
    return f"seed {sample.seed}" + ("" if sample.finished else f", {sample.result['status']}")


def run_curves(curves: Curves, colour: str) -> dict[str, Any]:
    """Return what the page of a run draws: every point of its curves.csv."""
    seed = {"name": "this run", "page": "", "splits": by_split(curves, EVERY)}
    row: dict[str, Any] = {
        "id": "run",
        "label": "this run",
        "colour": colour,
        "dash": "solid",
        "paper": {},
        "seeds": [seed],
        "log": None,
    }
    return {"rows": [row], "metrics": [_metric(*key) for key in curves], "thinned": 0, "comparable": True}


DASHES = {"solid": "solid", "dashed": "dash", "dotted": "dot", "dashdot": "dashdot"}  # matplotlib's -> plotly's


def offered(keys: list[tuple[str, str]], collected: Collected) -> list[dict[str, str]]:
    """Return the metrics that a page offers; those of the table's first figure of curves come first."""
    first = next((figure for figure in collected.table.figures if figure.kind == "curves"), None)
    preferred = [(split, kind) for kind in first.metrics for split in reversed(first.splits)] if first else []
    return [_metric(*key) for key in dict.fromkeys([*(key for key in preferred if key in keys), *keys])]


def _metric(split: str, kind: str) -> dict[str, str]:
    title = KINDS[kind][0] if kind in KINDS else kind.replace("_", " ")
    return {"split": split, "kind": kind, "title": f"{SPLITS.get(split, split)} {title}"}


def by_split(curves: Curves, points: int) -> dict[str, dict[str, list[float | None]]]:
    """Return, by split, the columns step, epoch, seconds and tokens and a column for each metric.

    A metric is None at the steps at which it was not measured.
    """
    columns: dict[str, dict[str, list[float | None]]] = {}
    for split in dict.fromkeys(split for split, _ in curves):
        metrics = {kind: curve for (curve_split, kind), curve in curves.items() if curve_split == split}
        by_step = {point.step: point for curve in metrics.values() for point in curve}
        kept = thinned([by_step[step] for step in sorted(by_step)], points)
        columns[split] = {name: [_short(getattr(point, name)) for point in kept] for name in COLUMNS}
        for kind, curve in metrics.items():
            values = {point.step: point.value for point in curve}
            columns[split][kind] = [_short(values.get(point.step, math.nan)) for point in kept]
    return columns


def thinned(curve: list[Point], count: int) -> list[Point]:
    """Return at most `count` points, evenly spaced, with the first and the last."""
    if len(curve) <= count:
        return curve
    return [curve[round(number * (len(curve) - 1) / (count - 1))] for number in range(count)]


def _short(value: float) -> float | None:
    """Round to five digits, as many as a page shows; None for what is not finite."""
    return float(f"{value:.5g}") if math.isfinite(value) else None


def as_script(name: str, content: Any) -> str:
    """Return data as a script, the only form in which a page opened from a file can load data."""
    return f"window.highway = window.highway || {{}};\nwindow.highway[{json.dumps(name)}] = {json.dumps(content)};\n"
