"""The debug group: ways of looking into a run that never become its result."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from highway.config.experiment import Experiment
from highway.errors import Held
from highway.ledger.directory import RunDirectory
from highway.testing.runs import curve, trained

Compose = Callable[..., Experiment]


@pytest.mark.parametrize("option", ["few", "overfit", "profile", "anomaly"])
def test_never_in_the_place_of_a_result(tiny: Compose, option: str) -> None:
    directory, plain = RunDirectory.of(tiny(f"debug={option}")), RunDirectory.of(tiny())
    assert directory.name == plain.name
    assert directory.path.parts[-3] == "debug" and plain.path.parts[-3] == "cells"
    assert RunDirectory.of(tiny("debug=trace")) == plain


def test_few(tiny: Compose) -> None:
    directory, result = trained(tiny("debug=few"))
    assert (result["status"], result["steps"]) == ("finished", 5)
    (directory.path / "of the first run").touch()
    trained(tiny("debug=few"))
    assert not (directory.path / "of the first run").exists()  # the run starts from the beginning again


def test_a_second_command_leaves_the_first_one_alone(tiny: Compose) -> None:
    directory = RunDirectory.of(tiny("debug=few"))
    (directory.path / "checkpoints").mkdir(parents=True)
    with directory.leased(), pytest.raises(Held):
        trained(tiny("debug=few"))
    assert (directory.path / "checkpoints").exists()


def test_what_a_link_leads_to_is_not_deleted(tiny: Compose, tmp_path: Path) -> None:
    elsewhere, directory = tmp_path / "elsewhere", RunDirectory.of(tiny("debug=few"))
    elsewhere.mkdir()
    directory.path.mkdir(parents=True)
    (elsewhere / "precious").touch()
    (directory.path / "checkpoints").symlink_to(elsewhere)
    directory.clear()
    assert (elsewhere / "precious").exists() and not list(directory.path.iterdir())


def test_overfit_learns_one_batch_by_heart(tiny: Compose) -> None:
    overrides = ("optimizer=adam", "optimizer.lr=0.01", "optimizer.schedule=constant", "debug.steps=150")
    directory, result = trained(tiny("debug=overfit", *overrides))
    losses = [float(row[-1]) for row in curve(directory) if row[3:5] == ["valid", "loss"]]
    assert len(losses) == 10
    assert losses[-1] < 0.5 < 2.0 < losses[0]
    assert result["metrics"]["test_loss"]["last"] == losses[-1]  # all three splits are the one batch


def test_profile_writes_a_trace_and_the_slowest(tiny: Compose, capsys: pytest.CaptureFixture[str]) -> None:
    directory, _ = trained(tiny("debug=profile", "debug.steps=6"))
    slowest = (directory.path / "profile" / "slowest.txt").read_text()
    assert "aten::addmm" in slowest and "Self CPU" in slowest
    assert slowest in capsys.readouterr().out
    trace = json.loads((directory.path / "profile" / "trace.json").read_text())
    steps = [event for event in trace["traceEvents"] if event.get("name") == "Optimizer.step#SGD.step"]
    assert len({event["ts"] for event in steps}) >= 2


def test_anomaly_names_the_operation(tiny: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highway.models.ends.dropout", lambda x, *_: (x - x.detach()).sqrt() * 0 + x)
    with pytest.warns(UserWarning, match=r"Error detected in SqrtBackward0"):
        _, result = trained(tiny("debug=anomaly", "trainer.max_steps=2"))
    assert result["status"] == "failed" and "nan values" in result["error"]
