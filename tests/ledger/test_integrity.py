"""No corrupt file becomes a result: bytes are flipped in every file that a result depends on, and disks are full."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from highway.config.experiment import Experiment
from highway.errors import Corrupt, Refused
from highway.ledger.directory import RunDirectory, seed_directories
from highway.ledger.files import written_atomically
from highway.ledger.record import write_record
from highway.run import build
from highway.run.checkpoint import load_weights, read_weights, resumable, save_weights
from highway.testing.runs import At, said, trained
from highway.training import run
from tests.support.overrides import EVERY_STEP

Compose = Callable[..., Experiment]
Stopped = Callable[[int], RunDirectory]


def flip(path: Path, count: int = 100) -> None:
    """Change `count` bytes of a file, or all of them if it is shorter."""
    content = bytearray(path.read_bytes())
    for place in random.Random(3).sample(range(len(content)), min(count, len(content))):
        content[place] ^= 0x55
    path.write_bytes(content)


def test_a_corrupt_checkpoint_falls_back(
    stopped: Stopped, ends_the_same: Callable[..., RunDirectory], caplog: pytest.LogCaptureFixture
) -> None:
    """A corrupt checkpoint falls back to the one before, and to the start where both are corrupt."""
    directory = stopped(7)
    latest, before = directory.checkpoints
    flip(latest)
    resumed = resumable(directory, forget=False)
    assert resumed is not None and resumed.path == before and "resume-6." in before.name
    flip(before)
    assert resumable(directory, forget=False) is None
    ends_the_same()
    assert said(caplog, "its sha256 is not the one in its name")


def test_a_curve_that_is_not_what_it_was_is_drawn_again(
    stopped: Stopped, ends_the_same: Callable[..., RunDirectory], caplog: pytest.LogCaptureFixture
) -> None:
    """A curve that was altered since the checkpoint is never sealed as that of the run."""
    flip(stopped(7).curves)
    ends_the_same()
    assert said(caplog, "curves.csv is not what it was at step 7")


def test_corrupt_weights_are_trained_again(
    tiny: Compose, stopped: Stopped, ends_the_same: Callable[..., RunDirectory]
) -> None:
    """The last epoch spoils the model, so that the last model is not the best."""
    flip(stopped(10).best)
    ends_the_same()
    result = trained(tiny(*EVERY_STEP))[1]
    assert result["metrics"]["valid_loss"]["best"] <= result["metrics"]["valid_loss"]["last"]


def test_weights_that_become_corrupt_interrupt_the_run_that_reads_them(
    tiny: Compose, ends_the_same: Callable[..., RunDirectory]
) -> None:
    directory = RunDirectory.of(tiny(*EVERY_STEP))
    _, result = trained(tiny(*EVERY_STEP), At(12, lambda: flip(directory.best)))
    assert result["status"] == "interrupted" and "best.safetensors is corrupt" in result["error"]
    ends_the_same()


def test_a_run_with_a_corrupt_record_is_resumed(
    finished: RunDirectory, ends_the_same: Callable[..., RunDirectory], caplog: pytest.LogCaptureFixture
) -> None:
    flip(finished.path / "result.json", 1)
    assert finished.status == "interrupted"
    assert said(caplog, "This record is left out.")
    ends_the_same()
    assert (finished.path / "result.corrupt.json").exists()


def test_best_weights_are_those_of_the_checkpoint_or_come_again(tiny: Compose, stopped: Stopped) -> None:
    """Best weights later than the checkpoint, saved by a killed run, are kept: the run reaches their step again.

    Weights of an earlier step would never come again, so that checkpoint cannot be resumed.
    """
    directory = stopped(10)
    model = build.model(tiny(*EVERY_STEP))
    header = {"run": directory.id, "config": directory.config.read_text()}
    for step, fits in ((11, True), (9, False)):
        save_weights(model, directory.best, header, step)
        assert (resumable(directory, forget=False) is not None) == fits


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch owned",)


def test_a_checkpoint_runs_no_code(
    stopped: Stopped, tmp_path: Path, ends_the_same: Callable[..., RunDirectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's checkpoint runs no code, even if its name has its checksum."""
    monkeypatch.chdir(tmp_path)
    directory = stopped(7)
    with written_atomically(directory.best.with_name("resume-8.ckpt"), checksum_in_name=True) as file:
        torch.save({"callbacks": {"Recorder": Evil()}}, file)
    with written_atomically(directory.best.with_name("resume-9.ckpt"), checksum_in_name=True) as file:
        torch.save({"other": 1}, file)
    assert len(directory.checkpoints) == 4
    ends_the_same()
    assert not (tmp_path / "owned").exists()


def test_a_changed_byte_of_weights_is_refused(tmp_path: Path) -> None:
    """Every fifth byte is tried, in names, shapes, dtypes, configuration and values. Weights may come from anybody."""
    path, model = tmp_path / "x.safetensors", torch.nn.Linear(3, 2)
    save_weights(model, path, {"config": "a: 1\n", "run": "x/seed1"}, 5)
    good = path.read_bytes()
    assert read_weights(path)[1]["step"] == "5"
    for place in range(0, len(good), 5):
        path.write_bytes(good[:place] + bytes([good[place] ^ 0x10]) + good[place + 1 :])
        with pytest.raises(Refused):
            load_weights(model, path)
    path.write_bytes(good)
    with pytest.raises(Corrupt, match="has the weights of step 5, not of step 6"):
        load_weights(model, path, "x/seed1", 6)


class Full:
    """A file on a full disk."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def __enter__(self) -> "Full":
        return self

    def __exit__(self, *_: Any) -> None:
        self.file.close()

    def write(self, content: Any) -> int:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("full", ["resume-", "result.json"])
def test_a_full_disk_interrupts_and_the_same_command_goes_on(
    tiny: Compose, ends_the_same: Callable[..., RunDirectory], monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    """A full disk gives one sentence and loses nothing, while a checkpoint or the record is written."""

    def opened(file: Any, *about: Any, **more: Any) -> Any:
        found = open(file, *about, **more)  # noqa: SIM115 (its caller closes it)
        name = Path(os.readlink(f"/proc/self/fd/{found.fileno()}")).name
        return Full(found) if name.removeprefix(".").startswith(full) and "r" not in about[0] else found

    directory = RunDirectory.of(tiny(*EVERY_STEP))
    with monkeypatch.context() as patch:

        def fill() -> None:
            patch.setattr("highway.ledger.files.open", opened, raising=False)
            patch.setattr("highway.ledger.files.os.fdopen", opened)

        assert run(tiny(*EVERY_STEP), directory, "test", (At(7, fill),)) == "unwritable"
    assert directory.status == "interrupted"
    if full != "result.json":
        assert "could not be written: No space left on device." in (directory.result() or {})["error"]
    ends_the_same()


def test_a_record_of_another_version_is_read(finished: RunDirectory, caplog: pytest.LogCaptureFixture) -> None:
    """Unknown keys and statuses are no mistake; a record without what a report reads is left out."""
    result = finished.result()
    assert result is not None
    write_record(finished.path, {**result, "status": "postponed", "mood": "good"})
    assert finished.status == "interrupted"
    write_record(finished.path, {key: value for key, value in result.items() if key != "cost"})
    assert finished.result() is None and said(caplog, "result.json.cost is missing. This record is left out.")


def test_a_folder_that_is_no_seed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("seed1", "seed_old", "seed1 (copy)", "seed02", "seed"):
        (tmp_path / name).mkdir()
    assert [path.name for path in seed_directories(tmp_path)] == ["seed1"]
    assert said(caplog, "seed_old: its name is not that of a seed, such as seed1; move it out of this folder.")
