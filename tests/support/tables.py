"""The contents of a table file, and records of its rows as runs would leave them, without training."""

from pathlib import Path
from typing import Any

from highway.config.compose import experiment
from highway.files.writing import write_text
from highway.ledger.directory import RunDirectory
from highway.ledger.record import write_record
from highway.sweep.reading import load_table

TABLE = load_table("highway_t1")
METRICS = ("valid_loss", "valid_bpc", "test_loss", "test_bpc")


def content(**changes: Any) -> dict[str, Any]:
    """Return the contents of a table file of one row, with these changes."""
    row = {"id": "a", "label": "A", "overrides": ["gate=none"]}
    base = {
        "id": "t",
        "caption": "c",
        "paper": "p",
        "select": "best",
        "recipe": [],
        "columns": [],
        "rows": [row],
        "claims": [],
        "figures": [],
        "budgets": {"paper": []},
    }
    return {**base, **changes}


def put(outputs: Path, row_id: str, seed: int, value: float, budget: str = "paper", **changes: Any) -> Path:
    """Write a record as a run leaves it. `value` is the test bpc, and the curve falls to it over 100 steps."""
    table = changes.pop("table", TABLE)
    overrides = [*table.overrides(table.row(row_id), budget, seed), f"outputs_dir={outputs}"]
    folder = RunDirectory.of(experiment(overrides)).path
    curve = changes.pop("curve", [(step, value + (100 - step) / 100) for step in (25, 50, 75, 100)])
    rows = [
        f"{s},{s / 100},1.0,{s},{split},{metric},{v}"
        for split in ("train", "valid")
        for s, v in curve
        for metric in ("loss", "bpc")
    ]
    write_text(folder / "curves.csv", "\n".join(["step,epoch,seconds,tokens,split,metric,value", *rows]) + "\n")
    record = {
        "cell": folder.parent.name,
        "seed": seed,
        "budget": budget,
        "status": "finished",
        "metrics": {metric: {"best": value, "last": value + 1} for metric in METRICS},
        "data": {"source": "files", "sha256": {"train": "a"}, "vocabulary_sha256": "v"},
        "cost": {"device": "a device"},
        "environment": {"versions": {"torch": "2"}, "precision": "32", "git_commit": "abc"},
    }
    write_record(folder, {**record, **changes})
    return folder
