"""Curves as pages draw them: columns of numbers, thinned if a page would hold too many."""

import csv
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from highway.config.metrics import KINDS
from highway.report.collect import Collected, authors_logs
from highway.report.curves import Curves, Outline, Point, read_curves
from highway.report.sample import Sample
from highway.report.style import SPLITS, looks

ON_A_PAGE = 240_000  # the most points that the page of a table holds
FEWEST, MOST = 2, 600  # points of a curve on that page
EVERY = 10**9
COLUMNS = ("step", "epoch", "seconds", "tokens")


def table_curves(collected: Collected, begun: dict[tuple[str, str], Path], links: dict[Path, str]) -> dict[str, Any]:
    """Return what the page of a table draws: by row, the curves of each seed, and the authors' own.

    `begun` holds the curves.csv of runs underway, by row and label. One run's curves are in memory at a time.
    """
    rows = {row.id: list(collected.samples[row.id]) for row in collected.table.at(collected.budget)}
    growing = {(row_id, name): curves for (row_id, name), path in begun.items() if (curves := _growing(path))}
    outlines = [
        outline
        for row_id, samples in rows.items()
        for outline in (
            *(sample.outline for sample in samples),
            *(tuple(curves) for (of_row, _), curves in growing.items() if of_row == row_id),
        )
    ]
    logs, row_looks = authors_logs(collected.table), looks(collected)
    points = points_of_each([*outlines, *map(tuple, logs.values())])

    def seeds(row_id: str) -> Iterator[dict[str, Any]]:
        for sample in rows.get(row_id, ()):
            if sample.outline:
                splits = by_split(sample.curves, points)
                yield {"name": seed_name(sample), "page": links[sample.directory], "splits": splits}
        for (of_row, name), curves in growing.items():
            if of_row == row_id:
                yield {"name": name, "page": "", "splits": by_split(curves, points)}

    def ended(row_id: str) -> bool:
        return bool(rows.get(row_id)) and all(of_row != row_id for of_row, _ in growing)

    drawn: list[dict[str, Any]] = [
        {
            "id": row.id,
            "label": row.label,
            "colour": row_looks[row.id].colour,
            "dash": DASHES[row_looks[row.id].dash],
            "paper": row.paper if collected.budget == "paper" else {},
            "unlearned": ended(row.id) and not collected.learned(row.id),
            "seeds": list(seeds(row.id)),
            "log": by_split(logs[row.id], points) if row.id in logs else None,
        }
        for row in collected.table.rows
        if rows.get(row.id) or row.id in logs or any(of_row == row.id for of_row, _ in growing)
    ]
    seeds_drawn = (seed for row in drawn for seed in row["seeds"])
    splits = (split for seed in seeds_drawn for split in seed["splits"].values())
    shown = points if any(len(split["step"]) >= points for split in splits) else 0
    metrics = offered(list(dict.fromkeys(key for outline in outlines for key in outline)), collected)
    return {
        "rows": drawn,
        "metrics": metrics,
        "thinned": shown,
        "comparable": collected.budget == "paper",
    }


def points_of_each(outlines: Iterable[Outline]) -> int:
    """Return how many points each split of each run may have, so that the page holds at most ON_A_PAGE.

    It holds more only above ON_A_PAGE / 2 curves: two points of each.
    """
    count = sum(len({split for split, _ in outline}) for outline in outlines)
    return min(max(ON_A_PAGE // max(count, 1), FEWEST), MOST)


def _growing(path: Path) -> Curves:
    """Return the curves of a run underway; none while its first or last line is being written."""
    try:
        return read_curves(path).get("", {})
    except (OSError, ValueError, KeyError, IndexError, StopIteration, csv.Error):
        return {}


def seed_name(sample: Sample) -> str:
    """Name the run of a row; a comma is only in the name of a run that has not finished: curves.js reads that."""
    return f"seed {sample.seed}" + ("" if sample.finished else f", {sample.result['status']}")


def run_curves(curves: Curves, colour: str, paper: dict[str, float]) -> dict[str, Any]:
    """Return what the page of a run draws: every point of its curves.csv."""
    seed = {"name": "this run", "page": "", "splits": by_split(curves, EVERY)}
    row: dict[str, Any] = {
        "id": "run",
        "label": "this run",
        "colour": colour,
        "dash": "solid",
        "paper": paper,
        "seeds": [seed],
        "log": None,
    }
    metrics = [
        _metric(*key) for key in sorted(curves, key=lambda key: (key[0] == "train", f"{key[0]}_{key[1]}" not in paper))
    ]
    return {"rows": [row], "metrics": metrics, "thinned": 0, "comparable": True}


DASHES = {  # matplotlib's -> lengths in pixels of strokes and gaps, which lines and legend share
    "solid": "solid",
    "dashed": "7 4",
    "dotted": "2 3",
    "dashdot": "9 3 2 3",
}


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
        columns[split] = {name: [_short(getattr(point, name), name) for point in kept] for name in COLUMNS}
        for kind, curve in metrics.items():
            values = {point.step: point.value for point in curve}
            columns[split][kind] = [_short(values.get(point.step, math.nan), kind) for point in kept]
    return columns


def thinned(curve: list[Point], count: int) -> list[Point]:
    """Return at most `count` points, evenly spaced, with the first and the last."""
    if len(curve) <= count:
        return curve
    return [curve[round(number * (len(curve) - 1) / (count - 1))] for number in range(count)]


def _short(value: float, column: str) -> float | None:
    """Round to five digits, as many as a page shows, except steps and tokens; None for what is not finite."""
    if not math.isfinite(value):
        return None
    return value if column in ("step", "tokens") else float(f"{value:.5g}")


def as_script(name: str, content: Any) -> str:
    """Return data as a script, the only form in which a page opened from a file can load data."""
    return f"window.highway = window.highway || {{}};\nwindow.highway[{json.dumps(name)}] = {json.dumps(content)};\n"
