"""The contents of a table file, and records of its rows as runs would leave them, without training."""

from pathlib import Path
from typing import Any

from highway.config.compose import experiment
from highway.data.translation import count_words
from highway.ledger.directory import RunDirectory
from highway.ledger.files import write_text
from highway.ledger.record import write_record
from highway.tables.reading import load_table, table_ids

TABLE = load_table("highway_t1")
XL = load_table("highway_t5")
TRANSLATION = load_table("gated_resnet_t1")
SMOKE_ROWS = [
    (table_id, row.id)
    for table_id in table_ids(trained=True)
    if "smoke" in load_table(table_id).budgets
    for row in load_table(table_id).at("smoke")
]
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
        "columns": [{"metric": "test_bpc"}],
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
    composed = experiment(overrides)
    folder = RunDirectory.of(composed).path
    curve = changes.pop("curve", [(step, value + (100 - step) / 100) for step in (25, 50, 75, 100)])
    rows = [
        f"{s},{s / 100},1.0,{s},{split},{metric},{v}"
        for split in ("train", "valid")
        for s, v in curve
        for metric in ("loss", "bpc")
    ]
    write_text(folder / "curves.csv", "\n".join(["step,epoch,seconds,tokens,split,metric,value", *rows]) + "\n")
    metrics = {name: {"best": value, "last": value + 1} for name in METRICS}
    metrics = ({} if changes.get("status") == "diverged" else metrics) | changes.pop("metrics", {})
    write_ended(
        folder,
        **{"status": "finished", "budget": budget, "metrics": metrics, **changes},
    )
    return folder


def write_ended(folder: Path, status: str, **changes: Any) -> None:
    """Write the record of a run that has ended. The values of `changes` replace its own, or add to a section."""
    record: dict[str, Any] = {
        "cell": folder.parent.name,
        "seed": int(folder.name.removeprefix("seed")),
        "budget": "paper",
        "status": status,
        "metrics": {"test_loss": {"best": 1.0, "last": 1.0}},
        "data": {"source": "files", "sha256": {"train": "a"}, "vocabulary_sha256": "v", "counting_loss": 99.0},
        "cost": {"device": "a device", "seconds": 1.0, "tokens_per_second": 100.0, "exclusive": True},
        "parameters": {"total": 7, "gate": 3},
        "environment": {
            "versions": {"torch": "2"},
            "precision": "32",
            "git_commit": "abc",
            "threads": 1,
            "compile": None,
        },
    }
    for key in {"cost", "environment", "metrics"} & changes.keys():
        changes[key] = record[key] | changes[key]
    write_record(folder, record | changes)


REFERENCES = ["a b c d e f", "the cat sat on the mat .", "one two three four", "so it goes , again and again"] * 10


def put_translation(outputs: Path, row_id: str, bleu: float = 2.0, seed: int = 1, **metrics: float) -> None:
    """Write a record of a translation."""
    columns = [column.metric for column in (*TRANSLATION.columns, *TRANSLATION.also)]
    values = {**dict.fromkeys(columns, 1.0), "bleu": bleu, **metrics}
    put(
        outputs,
        row_id,
        seed,
        2.0,
        table=TRANSLATION,
        metrics={metric: {"best": 0.0, "last": value} for metric, value in values.items()},
        cost={"device": "a device", "exclusive": False},
        data={
            "source": "files",
            "sha256": {"train": "a"},
            "vocabulary_sha256": "v",
            "counting_loss": 99.0,
            "words": {"pt": count_words(["um dois", "um"]), "en": count_words(REFERENCES)},
        },
    )
