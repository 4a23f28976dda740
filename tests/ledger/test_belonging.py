"""A file of another run, put where a run's own file was, is not taken for it."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from highway.config.experiment import Experiment
from highway.data import sample_texts
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.python.load import load
from highway.run import build
from highway.run.checkpoint import save_weights
from highway.testing.runs import trained
from tests.support.overrides import EVERY_STEP

Compose = Callable[..., Experiment]
Once = Callable[..., tuple[RunDirectory, dict[str, Any]]]
OTHER = (*EVERY_STEP, "optimizer.lr=4")


def exchange(kind: str, directory: RunDirectory, other: RunDirectory) -> None:
    """Put files of another run in the place of a run's own."""
    if "checkpoint " in f"{kind} ":
        for path in directory.checkpoints:
            path.unlink()
        shutil.copy(other.checkpoints[0], directory.best.parent)
    for name in ("curves.csv", "checkpoints/best.safetensors"):
        if name in kind:
            shutil.copy(other.path / name, directory.path / name)


@pytest.mark.parametrize("kind", ["checkpoint", "checkpoint and curves.csv", "checkpoints/best.safetensors"])
def test_a_file_of_another_run_before_a_resume(
    once: Once, tmp_path: Path, ends_the_same: Callable[..., RunDirectory], kind: str
) -> None:
    """Both have stopped after one validation, so the steps of their best weights agree."""
    directory, _ = once(EVERY_STEP, tmp_path / "outputs", 5)
    theirs, _ = once(OTHER, tmp_path / "theirs", 5)
    exchange(kind, directory, theirs)
    ends_the_same()


def test_a_finished_run_in_the_directory_of_another(
    once: Once, tmp_path: Path, ends_the_same: Callable[..., RunDirectory], caplog: pytest.LogCaptureFixture
) -> None:
    """The directory of another run, with all of its valid checksums, is neither a result nor a point to resume from."""
    directory, _ = once(EVERY_STEP, tmp_path / "outputs")
    theirs, _ = once(OTHER, tmp_path / "theirs")
    shutil.rmtree(directory.path)
    shutil.copytree(theirs.path, directory.path)
    assert directory.result() is None and f"it belongs to {theirs.id}" in caplog.text
    with pytest.raises(Refused, match=f"belongs to {theirs.id}, not to {directory.id}. Name the file"):
        load(directory.path)
    ends_the_same()
    assert list(directory.best.parent.glob("unusable-*")), "a checkpoint that cannot be used is kept under another name"


def test_weights_of_another_step_are_not_those_of_the_record(once: Once, tiny: Compose, tmp_path: Path) -> None:
    directory, record = once(EVERY_STEP, tmp_path / "outputs")
    header = {"config": directory.config.read_text(), "run": directory.id}
    for last, path, step in ((False, directory.best, record["best_step"]), (True, directory.last, record["steps"])):
        load(directory.path, last)
        save_weights(build.model(tiny(*EVERY_STEP)), path, header, step - 1)
        with pytest.raises(Refused, match=f"weights of step {step - 1}, but result.json says step {step}. Name the"):
            load(directory.path, last)
        load(path)


def test_a_run_goes_on_only_with_its_own_text(
    once: Once, tiny: Compose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once(EVERY_STEP, tmp_path / "outputs", 3)
    monkeypatch.setitem(sample_texts.SENTENCES, "train", 301)
    sample_texts.penn_treebank.cache_clear()
    with pytest.raises(Refused, match=r"The data have changed since step 3 of .*seed1\. Restore them, or move"):
        trained(tiny(*EVERY_STEP))
