"""The losses of the units of the test split: the same units however a row reads them, and reports that compare them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from highway.config.experiment import Experiment
from highway.ledger.files import read_json
from highway.ledger.record import write_record
from highway.report.collect import collect
from highway.report.report import build_report
from highway.run import build
from highway.testing.runs import trained
from tests.support.overrides import CARRY, MUSIC, PIXELS, SHORT
from tests.support.tables import TABLE, put

Compose = Callable[..., Experiment]


def units(directory: Path, name: str = "test_units_best") -> dict[str, Any]:
    return dict(np.load(directory / "probes" / f"{name}.npz"))


@pytest.mark.parametrize("overrides", [(), (*CARRY, "trainer.max_epochs=1")], ids=["windows", "carried"])
def test_the_units_add_up_to_the_test_loss(tiny: Compose, overrides: tuple[str, ...]) -> None:
    directory, result = trained(tiny(*SHORT, *overrides))
    for which in ("best", "last"):
        kept = units(directory.path, f"test_units_{which}")
        expected = result["metrics"]["test_loss"][which]
        assert kept["nats"].sum() / kept["scored"].sum() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("overrides", [(*PIXELS, "model=gru"), (*MUSIC, "model=gru")], ids=["images", "tunes"])
def test_the_units_of_examples_add_up(experiment: Compose, overrides: tuple[str, ...]) -> None:
    directory, result = trained(experiment(*overrides, "model.width=8", "trainer.max_steps=2"))
    kept = units(directory.path)
    assert kept["nats"].sum() / kept["scored"].sum() == pytest.approx(result["metrics"]["test_loss"]["best"], rel=1e-5)


def test_rows_that_read_otherwise_have_the_same_units(tiny: Compose) -> None:
    """Each position scored lies in the unit of its place in the text, whatever the lanes, windows and batches."""
    for settings in ((), CARRY, ("trainer.evaluation_batch=3",)):
        data = build.data(tiny(*settings))
        found = data.positions("test")
        assert found is not None
        batches = list(data.evaluated("test"))
        stream = data.streams.splits["test"]
        for batch, positions in zip(batches, found[0], strict=True):
            assert (stream[positions].long() == batch.targets).all()
        assert found[1] == len(stream)


@pytest.mark.usefixtures("no_published_records")
def test_a_report_compares_two_models_on_their_units(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    scored, base = np.full(200, 50.0), rng.normal(150, 20, 200)
    losses = {"baseline": base, "tanh": base + 5 + rng.normal(0, 5, 200), "sigmoid": base + rng.normal(0, 5, 200)}
    for row, nats in losses.items():
        folder = put(tmp_path, row, 1, 1.4)
        (folder / "probes").mkdir()
        np.savez(folder / "probes" / "test_units_best.npz", nats=nats, scored=scored)
        write_record(folder, read_json(folder / "result.json"))
    report = build_report(collect(TABLE, "paper", tmp_path))
    sigmoid, tanh = (report.differences[row] for row in ("sigmoid", "tanh"))
    assert sigmoid.on_test_set and sigmoid.low < 0 < sigmoid.high
    nats = (losses["tanh"] - base).sum() / scored.sum()
    assert tanh.size == pytest.approx(nats / np.log(2)) and tanh.low > 0, "in bits"
