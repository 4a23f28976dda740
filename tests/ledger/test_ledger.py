"""Sweeps that cannot be lost: failures, retries, sweeps that share a folder, and kill -9 at any moment."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from highway.config.experiment import Experiment
from highway.ledger.directory import RunDirectory
from highway.ledger.identity import identity, names_run
from tests.support.commands import TRAIN
from tests.support.overrides import FEW, MUSIC, TINY
from tests.support.sweeps import directories, inline, results, sweep
from tests.support.waiting import wait_for

Compose = Callable[..., Experiment]


def test_a_failed_run_trains_again_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    overrides = (*TINY, *FEW, "gate=none,sdu_tanh")

    def no_gates(actual: dict[str, Any], _: Path) -> None:
        if actual:
            raise ValueError("that was to be expected")

    with monkeypatch.context() as patch:
        patch.setattr("highway.training.save_probes", no_gates)
        code, said = inline(monkeypatch, tmp_path, *overrides)
    assert code == 1 and "gate=sdu_tanh seed 1: failed (ValueError: that was to be expected)" in said
    ended = capsys.readouterr().err
    assert "1 of 2 runs did not finish" in ended and "Add retry_failed=true to train failed runs again" in ended
    code, said = inline(monkeypatch, tmp_path, *overrides)
    assert code == 1 and "2 runs: 1 finished already, 1 failed already, 0 to train." in said
    assert inline(monkeypatch, tmp_path, *overrides, "retry_failed=true")[0] == 0
    assert {directory.status for directory in directories(tmp_path)} == {"finished"}


@pytest.mark.slow
def test_fail_fast_stops_at_the_first_failure(tmp_path: Path) -> None:
    overrides = (*TINY, *FEW, "optimizer.clip=null", "trainer.log_every=1", "optimizer.lr=1e9,0.1", "fail_fast=true")
    done = sweep(tmp_path, *overrides, "hydra.launcher.slots=1")
    assert done.returncode == 1
    assert "diverged" in done.stderr and "optimizer.lr=0.1 seed 1: waiting" in done.stderr
    assert len(results(tmp_path)) == 1


def test_a_changed_recipe_shows_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row's link goes to the new run, and the old run stays."""
    row = ("table=highway_t1", "budget=smoke", "rows=baseline", *FEW, "dataset.evaluation.lanes=100", "model.heads=2")
    assert inline(monkeypatch, tmp_path, *row, "model.width=16")[0] == 0
    (earlier,) = directories(tmp_path)
    assert inline(monkeypatch, tmp_path, *row, "model.width=24")[0] == 0
    (link,) = (path for path in tmp_path.glob("highway_t1/smoke/*/seed1") if path.resolve() != earlier.path)
    today = link.resolve()
    link.unlink()
    link.symlink_to(os.path.relpath(earlier.path, link.parent))  # as before an edit of the table's file
    _, said = inline(monkeypatch, tmp_path, *row, "model.width=24")
    assert "1 row has another configuration than before; " in said and ": model.width 16 -> 24. The earlier" in said
    assert link.resolve() == today and earlier.status == "finished"


@pytest.mark.slow
def test_a_cell_of_another_sweep_that_dies_is_taken_over(tmp_path: Path) -> None:
    """The second sweep waits for the first one's run, sees it die, and goes on from its checkpoint."""
    overrides = [
        *TINY,
        "gate=sdu_tanh",
        "dataset.train.lanes=16",
        "trainer.checkpoint_seconds=0.2",
        "trainer.max_steps=300",
    ]
    environment = {**os.environ, "HIGHWAY_OUTPUTS": str(tmp_path)}
    first = subprocess.Popen([sys.executable, str(TRAIN), *overrides], env=environment, stderr=subprocess.DEVNULL)
    wait_for(lambda: any(bool(directory.checkpoints) for directory in directories(tmp_path)))
    (directory,) = directories(tmp_path)
    second = subprocess.Popen(
        [sys.executable, str(TRAIN), "-m", *overrides], env=environment, stderr=subprocess.PIPE, text=True
    )
    time.sleep(1.5)
    first.kill()
    first.wait()
    _, said = second.communicate(timeout=120)
    assert second.returncode == 0, said
    assert directory.status == "finished"
    assert sorted(path.name for path in directory.leases.glob("*.json")) == ["1.json", "2.json"]


def test_the_bound_of_divergence_is_part_of_the_identity(experiment: Compose) -> None:
    """It decides the outcome of a run. At its task's own value it changes no name, given as a default or typed."""
    for overrides, usual in (((), 50), (("model=gru", "model.input=88", "optimizer=adam_music", *MUSIC), 500)):
        name = RunDirectory.of(experiment(*overrides)).name
        assert "diverged_above" not in identity(experiment(*overrides))["keys"]["trainer"]
        assert RunDirectory.of(experiment(*overrides, f"trainer.diverged_above={usual}")).name == name
        assert RunDirectory.of(experiment(*overrides, "trainer.diverged_above=51")).name != name
    assert names_run("trainer.diverged_above")
