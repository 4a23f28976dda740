"""The tables that a report folds: when validation divided the learning rates, which readings are excluded."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from highway.ledger.files import write_text
from highway.ledger.record import read_record, write_record
from highway.report.collect import collect
from highway.report.details import details, readings, to_csv
from tests.support.tables import TABLE, put

pytestmark = pytest.mark.usefixtures("no_published_records")
CONSTANT = [0.5] * 10


def put_rates(outputs: Path, row: str, seed: int, rates: Sequence[float], schedule: str = "plateau") -> Path:
    """Write a record with ten learning rates, two an epoch: in its middle, and at its end after the validation."""
    folder = put(outputs, row, seed, 1.4)
    record = read_record(folder / "result.json")
    assert record is not None
    points = enumerate(rates, start=1)
    lines = [f"{10 * half},{half / 2},1.0,1,train,learning_rate,{rate}\n" for half, rate in points]
    write_text(folder / "curves.csv", (folder / "curves.csv").read_text() + "".join(lines))
    optimizer = {"lr": 0.5, "schedule": schedule, "plateau": {"divide_by": 10}}
    write_text(folder / "config.yaml", yaml.safe_dump({"optimizer": optimizer}))
    write_record(folder, record)
    return folder


def lines_of(outputs: Path) -> list[tuple[str, ...]]:
    grids = details(collect(TABLE, "paper", outputs))
    return [line.texts for grid in grids if "times divided" in grid.heads for line in grid.lines]


def test_each_run_has_its_first_division_and_their_number(tmp_path: Path) -> None:
    put_rates(tmp_path, "tanh", 1, CONSTANT)
    put_rates(tmp_path, "sigmoid", 1, [0.5] * 5 + [0.05] * 5, schedule="steps")
    put(tmp_path, "baseline", 1, 1.5)  # its files do not say
    assert lines_of(tmp_path) == [], "no table if no rate was divided"
    put_rates(tmp_path, "tanh", 2, [0.5] * 3 + [0.05] * 4 + [0.005] * 3)  # lower at the end of epoch 2
    put_rates(tmp_path, "tanh", 3, [0.5] * 6 + [0.005] * 4)  # twice between two points, and lower within epoch 4
    assert lines_of(tmp_path) == [
        ("+ tanh SDU", "1", "never", "0", "1.400"),
        ("+ tanh SDU", "2", "2", "2", "1.400"),
        ("+ tanh SDU", "3", "3", "2", "1.400"),
    ]
    text = to_csv(collect(TABLE, "paper", tmp_path))
    assert ",tanh,'+ tanh SDU,False,,3,finished,rate_first_divided_after_epoch,3," in text
    put_rates(tmp_path, "tanh", 3, CONSTANT)
    assert lines_of(tmp_path)[2] == ("+ tanh SDU", "3", "never", "0", "1.400"), "another record is read anew"


def test_a_reading_is_excluded_by_its_lowest_validation(tmp_path: Path) -> None:
    """The paper's validation is 1.4 here, so that 1.358 to 1.442 may be a run of the paper."""
    rows = [row.model_copy(update={"paper": {"valid_bpc": 1.4}}) if row.id == "baseline" else row for row in TABLE.rows]
    others = ["sigmoid", "tanh", "highway", "post_norm"]
    table = TABLE.model_copy(update={"rows": rows, "readings": {"baseline": others}})

    def excluded(budget: str) -> list[tuple[str, ...]]:
        return [(line.texts[0], *line.texts[2:]) for line in readings(collect(table, budget, tmp_path)).lines]

    put(tmp_path, "baseline", 1, 1.36, table=table)
    put(tmp_path, "baseline", 2, 1.44, table=table)
    put(tmp_path, "sigmoid", 1, 1.5, curve=[(50, 1.35), (100, 1.5)], table=table)
    put(tmp_path, "tanh", 1, 1.45, table=table)
    put(tmp_path, "highway", 1, 1.45, status="diverged", table=table)
    assert excluded("paper") == [
        ("T-L3", "1.360", "1.400", "no"),
        ("+ sigmoid SDU", "1.350", "1.400", "yes, below"),
        ("+ tanh SDU", "1.450", "1.400", "yes, above"),
        ("+ highway gate", "1.450", "1.400", "no"),
    ]
    put(tmp_path, "tanh", 1, 1.45, budget="mini", table=table)
    assert excluded("mini") == [], "another size"
