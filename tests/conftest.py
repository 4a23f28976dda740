"""What all tests share: experiments composed as a user would compose them, in folders of their own."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from highway.config.compose import experiment as composed
from highway.config.experiment import Experiment
from highway.data import sample

TINY = (  # seconds on one core; every test that trains starts from these words
    "budget=smoke",
    "model.width=16",
    "model.heads=2",
    "model.feed_forward=32",
    "dataset.train={lanes:4,window:24,stride:20,scored:20}",
    "dataset.evaluation={lanes:40,window:24,stride:20,scored:20}",
    "trainer.accelerator=cpu",
    "trainer.threads=1",
    "trainer.max_steps=null",
    "trainer.validate_every=null",
)
REAL_DATA = Path(os.environ.get("HIGHWAY_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture(autouse=True, scope="session")
def _own_cores() -> None:
    """Of several workers each has its share, and what it starts: threads that wait for each other spin meanwhile."""
    if hasattr(os, "sched_setaffinity"):
        worker, workers = (os.environ.get(f"PYTEST_XDIST_WORKER{which}") for which in ("", "_COUNT"))
        share = slice(int(worker.removeprefix("gw")), None, int(workers)) if worker and workers else slice(None)
        everything = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, everything[share] or everything)
    torch.set_num_threads(1)
    if os.environ.get("HIGHWAY_MKLDNN") == "off":  # make test-least
        torch.backends.mkldnn.set_flags(False)


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the folders of the person who runs it."""
    monkeypatch.setenv("HIGHWAY_OUTPUTS", str(tmp_path / "outputs"))
    monkeypatch.setenv("HIGHWAY_DATA", str(tmp_path / "data"))


@pytest.fixture
def experiment() -> Callable[..., Experiment]:
    """An experiment from override words, composed and checked like a command line."""
    return lambda *words: composed(list(words))


@pytest.fixture
def tiny(experiment: Callable[..., Experiment], monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Experiment]]:
    """The same with a small model, on a sample corpus of 32,000 characters."""
    monkeypatch.setattr(sample, "SENTENCES", {"train": 300, "valid": 40, "test": 40})
    sample.penn_treebank.cache_clear()
    yield lambda *words: experiment(*TINY, *words)
    sample.penn_treebank.cache_clear()


needs_real_data = pytest.mark.skipif(
    not (REAL_DATA / "ptb" / "ptb.train.txt").exists(), reason=f"no real data in {REAL_DATA}: set HIGHWAY_DATA"
)
