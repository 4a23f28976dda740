"""Goldens that no change may move: the names of all runs, the published records, the first losses of known runs.

names.json       the directory of each row at each budget, by `table row budget`, also after what was chosen
records.json     status, budget and metrics of each published record, by its directory
first_rows.json  the rows of training of three small runs on sample data, and the processor that trained them

`pytest -m data` also trains the first steps of three published records on the real data, in a minute.
Write first_rows.json again (python -m tests.goldens.test_goldens) only if numbers are meant to change.
"""

import csv
import functools
import json
from pathlib import Path
from typing import Any

import pytest

from highway.config.compose import experiment as composed
from highway.config.home import REFERENCE
from highway.ledger.directory import RunDirectory
from highway.ledger.files import write_json
from highway.ledger.identity import identified
from highway.machine import device_name
from highway.python.load import experiment_of
from highway.tables.reading import load_table, table_ids
from highway.testing.runs import StopAt, trained
from tests.support.data import REAL_DATA

HERE = Path(__file__).parent
NAMES: dict[str, str] = json.loads((HERE / "names.json").read_text())
RECORDS: dict[str, dict[str, Any]] = json.loads((HERE / "records.json").read_text())
FIRST_ROWS = HERE / "first_rows.json"
SMALL = {  # a run for each kind of gate: residual, state, score
    "highway_t4": "independent_tanh",
    "hsg_t1": "hsg_20",
    "gated_resnet_t1": "g3_e4h6",
}
SIX_STEPS = (
    "trainer.max_steps=6",
    "trainer.validate_every=6",
    "trainer.log_every=2",
    "trainer.threads=1",
    "trainer.accelerator=cpu",
    "trainer.precision=32",
)
PUBLISHED = ("r_transformer-0ab1b1a8d490", "rhn-16a3dacf35f9", "transformer_xl-413fecead82a")
ROUNDING = 1e-4  # relative, between processors
WITHOUT_A_ROW = {  # hsg_t1 at mini at the learning rate of the paper, with and without a gate at four depths
    *("rhn-0239891243f7", "rhn-2588396e8e9f", "rhn-4860f7d73555", "rhn-57e7397a01e7"),
    *("rhn-89742a874a5d", "rhn-9602897572b0", "rhn-9b0bf9642c0b", "rhn-ed27b453291f"),
}


@functools.cache
def run_names(table_id: str) -> dict[str, str]:
    """Return the name of each row's runs, by `table row budget`.

    Of a row that chooses, these runs have the first settings; those of other trials have their settings in the key,
    too, and those with what was chosen the word `chosen`.
    """
    table, found = load_table(table_id), {}
    for row in table.rows:
        for budget in row.budgets or table.budgets:
            key, combinations = f"{table_id} {row.id} {budget}", row.choose.combinations if row.choose else [[]]
            for settings in combinations if row.choose and row.choose.at(budget) else combinations[:1]:
                described = composed(table.overrides(row.choosing(budget, settings), budget, 1))
                found[" ".join((key, *settings)) if key in found else key] = identified(described)
            if budget in row.chosen:
                found[f"{key} chosen"] = identified(composed(table.overrides(row, budget, 1)))
    return found


@pytest.mark.parametrize("table_id", sorted({name.split()[0] for name in NAMES}))
def test_every_run_keeps_its_name(table_id: str) -> None:
    today = run_names(table_id)
    moved = {key: run for key, run in NAMES.items() if key.split()[0] == table_id and today.get(key) != run}
    assert not moved, "finished runs would not be found under another name"


def test_every_published_record_is_of_a_row_or_of_its_trials() -> None:
    runs = {run for table_id in table_ids() for run in run_names(table_id).values()}
    assert {published.name for published in (REFERENCE / "cells").iterdir()} - runs == WITHOUT_A_ROW


@pytest.mark.parametrize("run", RECORDS)
def test_every_published_record_is_read_and_named_by_its_configuration(run: str) -> None:
    directory, known = RunDirectory(REFERENCE / "cells" / run), RECORDS[run]
    result = directory.result()
    assert result is not None
    if known["status"] == "dropped":  # of an earlier rule, which stopped trials that fell behind
        known = {**known, "status": "interrupted"}
    assert {key: result[key] for key in known} == known
    assert RunDirectory.of(experiment_of(directory.config.read_text(), directory)).id == run


@pytest.mark.parametrize("table_id", SMALL)
def test_a_small_run_trains_as_it_did(table_id: str, tmp_path: Path) -> None:
    known = json.loads(FIRST_ROWS.read_text())
    _assert_same(_small_run(table_id, tmp_path), known["rows"][table_id], known["processor"])


@pytest.mark.data
@pytest.mark.parametrize("run", PUBLISHED)
def test_a_published_record_trains_as_it_did(run: str, tmp_path: Path) -> None:
    published = RunDirectory(REFERENCE / "cells" / run / "seed1")
    result, recorded = published.result(), _first(_training_rows(published))
    assert result is not None
    described = experiment_of(published.config.read_text(), published)
    described.data_dir, described.outputs_dir = REAL_DATA, tmp_path
    described.trainer.threads = result["environment"]["threads"]
    directory, ended = trained(described, StopAt(int(recorded[0].split(",")[0]) + 1))
    assert ended["status"] == "interrupted", ended["error"]
    metrics = {row.split(",")[3] for row in recorded}  # older records have fewer
    rows = [row for row in _first(_training_rows(directory)) if row.split(",")[3] in metrics]
    _assert_same(rows, recorded, result["cost"]["device"])


def _small_run(table_id: str, outputs: Path) -> list[str]:
    """Train six steps of a row at smoke budget, and return its rows of training."""
    table = load_table(table_id)
    overrides = table.overrides(table.row(SMALL[table_id]), "smoke", 1)
    before_the_evaluation = StopAt(6)
    directory, result = trained(composed([*overrides, *SIX_STEPS, f"outputs_dir={outputs}"]), before_the_evaluation)
    assert result["status"] == "interrupted", result["error"]
    return _training_rows(directory)


def _training_rows(directory: RunDirectory) -> list[str]:
    """Return `step,epoch,tokens,metric,value` of each row of training in a run's curves, from the second step on."""
    with open(directory.curves, newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["split"] == "train" and int(row["step"]) >= 2]
    return [",".join(row[key] for key in ("step", "epoch", "tokens", "metric", "value")) for row in rows]


def _first(rows: list[str]) -> list[str]:
    """Return the rows of the first step among these."""
    step = rows[0].split(",")[0]
    return [row for row in rows if row.split(",")[0] == step]


def _assert_same(rows: list[str], recorded: list[str], processor: str) -> None:
    """Compare rows to the digit on the processor that recorded them, and within rounding on another one."""
    if processor == device_name("cpu"):
        assert rows == recorded
    ours, theirs = ([row.rpartition(",") for row in several] for several in (rows, recorded))
    assert [row[0] for row in ours] == [row[0] for row in theirs]
    assert [float(row[2]) for row in ours] == pytest.approx([float(row[2]) for row in theirs], rel=ROUNDING)


if __name__ == "__main__":
    import tempfile

    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        small_runs = {table_id: _small_run(table_id, Path(folder)) for table_id in SMALL}
    write_json(FIRST_ROWS, {"processor": device_name("cpu"), "rows": small_runs})
