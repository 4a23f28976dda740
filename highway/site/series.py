"""Curves as the pages draw them: columns of numbers, thinned where a page would hold too many."""

import json
import math
from pathlib import Path
from typing import Any

from highway.config.metrics import KINDS, METRICS
from highway.report.collect import Collected, Curves, Point, authors_logs
from highway.report.style import SPLITS, looks

ON_A_PAGE = 240_000  # points that the page of a table holds at the most
FEWEST, MOST = 60, 600  # points of one of its curves
COLUMNS = ("step", "epoch", "seconds", "tokens")


def of_table(collected: Collected, links: dict[Path, str]) -> dict[str, Any]:
    """What the figure of a table's page is drawn from: by row, each seed's curves, and the authors' own."""
    samples = [sample for sample in collected.every if sample.curves]
    logs = authors_logs(collected.table) if collected.budget == "paper" else {}
    count = sum(len(sample.curves) for sample in samples)
    points = min(max(ON_A_PAGE // max(count, 1), FEWEST), MOST)
    found = looks(collected)
    rows = [
        {
            "id": row.id,
            "label": row.label,
            "colour": found[row.id].colour,
            "dash": DASHES[found[row.id].dash],
            "paper": row.paper if collected.budget == "paper" else {},
            "seeds": [
                {
                    "name": f"seed {sample.seed}",
                    "page": links[sample.directory],
                    "splits": by_split(sample.curves, points),
                }
                for sample in collected.samples[row.id]
                if sample.curves
            ],
            "log": by_split(logs[row.id], points) if row.id in logs else None,
        }
        for row in collected.table.rows
        if collected.samples[row.id] or row.id in logs
    ]
    return {"rows": rows, "metrics": drawn(samples[0].curves, collected) if samples else [], "thinned": points}


def of_cell(curves: Curves, colour: str) -> dict[str, Any]:
    """Everything that curves.csv has."""
    seed = {"name": "this run", "page": "", "splits": by_split(curves, MOST * 10)}
    row: dict[str, Any] = {
        "id": "run",
        "label": "this run",
        "colour": colour,
        "dash": "solid",
        "paper": {},
        "seeds": [seed],
        "log": None,
    }
    return {"rows": [row], "metrics": [_metric(*place) for place in curves], "thinned": 0}


DASHES = {"solid": "solid", "dashed": "dash", "dotted": "dot", "dashdot": "dashdot"}  # matplotlib's -> plotly's


def drawn(curves: Curves, collected: Collected) -> list[dict[str, str]]:
    """The metrics that a page offers, first what the table's first figure of curves shows, last on validation."""
    first = next((figure for figure in collected.table.figures if figure.kind == "curves"), None)
    wanted = [(split, kind) for kind in first.metrics for split in reversed(first.splits)] if first else []
    return [_metric(*place) for place in dict.fromkeys([*(one for one in wanted if one in curves), *curves])]


def _metric(split: str, kind: str) -> dict[str, str]:
    title = KINDS[kind][0] if kind in KINDS else kind.replace("_", " ")
    better = METRICS[f"{split}_{kind}"].better if f"{split}_{kind}" in METRICS else ""
    return {"split": split, "kind": kind, "title": f"{SPLITS.get(split, split)} {title}", "better": better}


def by_split(curves: Curves, points: int) -> dict[str, dict[str, list[float | None]]]:
    """Split -> the places of its measurements, and each metric there; all metrics of a split are measured together."""
    found: dict[str, dict[str, list[float | None]]] = {}
    for (split, kind), curve in curves.items():
        kept = thinned(curve, points)
        if split not in found:
            found[split] = {name: [_short(getattr(point, name)) for point in kept] for name in COLUMNS}
        if len(kept) == len(found[split]["step"]):
            found[split][kind] = [_short(point.value) for point in kept]
    return found


def thinned(curve: list[Point], count: int) -> list[Point]:
    """At most so many points, evenly, the first and the last among them."""
    if len(curve) <= count:
        return curve
    return [curve[round(number * (len(curve) - 1) / (count - 1))] for number in range(count)]


def _short(value: float) -> float | None:
    """Five digits, which no screen shows more of."""
    return float(f"{value:.5g}") if math.isfinite(value) else None


def script(name: str, content: Any) -> str:
    """Data as a script: a page opened from a file may load nothing else."""
    return f"window.highway = window.highway || {{}};\nwindow.highway[{json.dumps(name)}] = {json.dumps(content)};\n"
