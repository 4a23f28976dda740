"""A run that nothing disturbed, and a run that must end as it did, whatever happens to its files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl

from highway.config.experiment import Experiment
from highway.ledger.directory import RunDirectory
from highway.testing.runs import curve, numbers, same_weights, trained
from tests.support.overrides import EVERY_STEP

Compose = Callable[..., Experiment]
Once = Callable[..., tuple[RunDirectory, dict[str, Any]]]
Stopped = Callable[[int], RunDirectory]


@pytest.fixture
def whole(once: Once, tmp_path: Path) -> tuple[RunDirectory, dict[str, Any]]:
    """Return a run that nothing disturbed."""
    return once(EVERY_STEP, tmp_path / "whole")


@pytest.fixture
def ends_the_same(tiny: Compose, whole: tuple[RunDirectory, dict[str, Any]]) -> Callable[..., RunDirectory]:
    """Return a function that trains the run to its end and checks that it equals the undisturbed one."""

    def check(*callbacks: pl.Callback) -> RunDirectory:
        directory, result = trained(tiny(*EVERY_STEP), *callbacks)
        assert result["status"] == "finished" and directory.status == "finished"
        assert same_weights(whole[0].last, directory.last) and same_weights(whole[0].best, directory.best)
        assert curve(whole[0]) == curve(directory)
        assert directory.config.read_text() == whole[0].config.read_text()
        assert numbers(result) == numbers(whole[1])
        return directory

    return check


@pytest.fixture
def stopped(once: Once, tmp_path: Path) -> Stopped:
    """Return a function that leaves the same run, stopped at a step, where the next start of this test finds it."""

    def stop_at(step: int) -> RunDirectory:
        directory, result = once(EVERY_STEP, tmp_path / "outputs", step)
        assert result["status"] == "interrupted"
        return directory

    return stop_at


@pytest.fixture
def finished(once: Once, tmp_path: Path) -> RunDirectory:
    """Return the same run, finished, where the next start of this test finds it."""
    return once(EVERY_STEP, tmp_path / "outputs")[0]
