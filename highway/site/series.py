"""Curves as the pages draw them: columns of numbers, thinned where a page would hold too many."""

import json
import math
from pathlib import Path
from typing import Any

from highway.config.metrics import KINDS
from highway.report.collect import Collected, Curves, Point, Sample, authors_logs, underway
from highway.report.style import SPLITS, looks

ON_A_PAGE = 240_000  # points that the page of a table holds at the most
FEWEST, MOST = 60, 600  # points of one of its curves
EVERY = 10**9
COLUMNS = ("step", "epoch", "seconds", "tokens")


def of_table(collected: Collected, outputs: Path, links: dict[Path, str]) -> dict[str, Any]:
    """What the figure of a table's page is drawn from: by row, each seed's curves, and the authors' own."""
    found: dict[str, list[tuple[str, str, Curves]]] = {}  # a name, a page, and the curves of a seed
    for row in collected.table.at(collected.budget):
        done = [(_name(one), links[one.directory], one.curves) for one in collected.samples[row.id]]
        begun = underway(collected.experiments[row.id], outputs).items()
        found[row.id] = [*done, *((name, "", curves) for name, curves in begun)]
    logs, look = authors_logs(collected.table), looks(collected)
    every = [curves for seeds in found.values() for *_, curves in seeds if curves]
    points = min(max(ON_A_PAGE // max(sum(map(len, every)), 1), FEWEST), MOST)
    rows = [
        {
            "id": row.id,
            "label": row.label,
            "colour": look[row.id].colour,
            "dash": DASHES[look[row.id].dash],
            "paper": row.paper if collected.budget == "paper" else {},
            "seeds": [
                {"name": name, "page": page, "splits": by_split(curves, points)}
                for name, page, curves in found.get(row.id, ())
                if curves
            ],
            "log": by_split(logs[row.id], points) if row.id in logs else None,
        }
        for row in collected.table.rows
        if found.get(row.id) or row.id in logs
    ]
    metrics = drawn(list(dict.fromkeys(place for curves in every for place in curves)), collected)
    return {"rows": rows, "metrics": metrics, "thinned": points, "comparable": collected.budget == "paper"}


def _name(sample: Sample) -> str:
    return f"seed {sample.seed}" + ("" if sample.finished else f", {sample.result['status']}")


def of_cell(curves: Curves, colour: str) -> dict[str, Any]:
    """Everything that curves.csv has."""
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
    return {"rows": [row], "metrics": [_metric(*place) for place in curves], "thinned": 0, "comparable": True}


DASHES = {"solid": "solid", "dashed": "dash", "dotted": "dot", "dashdot": "dashdot"}  # matplotlib's -> plotly's


def drawn(places: list[tuple[str, str]], collected: Collected) -> list[dict[str, str]]:
    """The metrics that a page offers, first what the table's first figure of curves shows, last on validation."""
    first = next((figure for figure in collected.table.figures if figure.kind == "curves"), None)
    wanted = [(split, kind) for kind in first.metrics for split in reversed(first.splits)] if first else []
    return [_metric(*place) for place in dict.fromkeys([*(one for one in wanted if one in places), *places])]


def _metric(split: str, kind: str) -> dict[str, str]:
    title = KINDS[kind][0] if kind in KINDS else kind.replace("_", " ")
    return {"split": split, "kind": kind, "title": f"{SPLITS.get(split, split)} {title}"}


def by_split(curves: Curves, points: int) -> dict[str, dict[str, list[float | None]]]:
    """Split -> the places of its measurements, and each metric there; nothing where a metric was not measured."""
    found: dict[str, dict[str, list[float | None]]] = {}
    for split in dict.fromkeys(split for split, _ in curves):
        places = {point.step: point for (one, _), curve in curves.items() if one == split for point in curve}
        kept = thinned([places[step] for step in sorted(places)], points)
        found[split] = {name: [_short(getattr(point, name)) for point in kept] for name in COLUMNS}
        for (one, kind), curve in curves.items():
            if one == split:
                values = {point.step: point.value for point in curve}
                found[split][kind] = [_short(values.get(point.step, math.nan)) for point in kept]
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
