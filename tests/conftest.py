"""Fixtures that all tests share: experiments composed as a user would compose them, in their own folders."""

import contextlib
import hashlib
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from highway.config.compose import experiment as composed
from highway.config.experiment import Experiment
from highway.data import sample_texts
from highway.ledger.directory import RunDirectory
from highway.ledger.files import read_json
from highway.testing.runs import StopAt, trained
from tests.support.overrides import TINY


@pytest.fixture(autouse=True, scope="session")
def _own_cores() -> None:
    """Give each of several workers, and the processes it starts, its share of the cores: waiting threads spin."""
    if hasattr(os, "sched_setaffinity"):
        worker, workers = (os.environ.get(f"PYTEST_XDIST_WORKER{which}") for which in ("", "_COUNT"))
        share = slice(int(worker.removeprefix("gw")), None, int(workers)) if worker and workers else slice(None)
        everything = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, everything[share] or everything)
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the folders of the person who runs the tests."""
    monkeypatch.setenv("HIGHWAY_OUTPUTS", str(tmp_path / "outputs"))
    monkeypatch.setenv("HIGHWAY_DATA", str(tmp_path / "data"))


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """Take away what a command adds to the log: its stream is closed when the test has ended."""
    log = logging.getLogger("highway")
    before, level = list(log.handlers), log.level
    yield
    for handler in [handler for handler in log.handlers if handler not in before]:
        log.removeHandler(handler)
        with contextlib.suppress(OSError):  # a log on a full disk
            handler.close()
    log.setLevel(level)


@pytest.fixture
def experiment() -> Callable[..., Experiment]:
    """Return a function that composes and checks an experiment from overrides, like a command line."""
    return lambda *arguments: composed(list(arguments))


@pytest.fixture
def tiny(experiment: Callable[..., Experiment], monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Experiment]]:
    """Return a function like `experiment` with a small model.

    The sample corpus has 32,000 characters, or is an encyclopedia of 100 pages.
    """
    monkeypatch.setattr(sample_texts, "SENTENCES", {"train": 300, "valid": 40, "test": 40})
    monkeypatch.setattr(sample_texts, "PAGES", 100)
    sample_texts.penn_treebank.cache_clear()
    sample_texts.wikipedia.cache_clear()
    yield lambda *overrides: experiment(*TINY, *overrides)
    sample_texts.penn_treebank.cache_clear()
    sample_texts.wikipedia.cache_clear()


@pytest.fixture
def short_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure the gates and gradients of a trained recurrent model over few steps: at full length they take seconds."""
    monkeypatch.setattr("highway.tasks.recurrent_figures.REACH", 3)
    monkeypatch.setattr("highway.tasks.recurrent_figures.STEPS", 3)


@pytest.fixture
def no_published_records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let reports find only the records that the test has written."""
    monkeypatch.setattr("highway.config.home.REFERENCE", tmp_path / "none")


@pytest.fixture(scope="session")
def _kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def once(_kept: Path, tiny: Callable[..., Experiment]) -> Callable[..., tuple[RunDirectory, dict[str, Any]]]:
    """Train a run at the first call in a session of tests; at every call, copy what it left behind to `outputs`.

    The overrides are those of `tiny`; `stop` is the step at which a signal stops the run.
    """

    def copied(
        arguments: tuple[str, ...], outputs: Path, stop: int | None = None
    ) -> tuple[RunDirectory, dict[str, Any]]:
        kept = _kept / hashlib.sha256(repr((arguments, stop)).encode()).hexdigest()
        described = tiny(*arguments)
        if not kept.exists():
            described.outputs_dir = kept
            trained(described, *([] if stop is None else [StopAt(stop)]))
        shutil.copytree(kept, outputs, symlinks=True)
        described.outputs_dir = outputs
        directory = RunDirectory.of(described)
        return directory, read_json(directory.path / "result.json")

    return copied
