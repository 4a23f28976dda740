"""Directories, FIFOs and sockets in the place of files stop nothing, and nothing waits for them."""

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from highway.config.experiment import Experiment
from highway.errors import Corrupt
from highway.files.plain import make_way, read_bytes
from highway.files.writing import append_text, file_sha256
from highway.ledger.directory import RunDirectory, seed_directories
from highway.ledger.record import read_record
from highway.run import build
from highway.run.checkpoint import read_weights
from highway.sweep.launch import last_line
from highway.testing.runs import At, said
from highway.use.load import load
from tests.support.overrides import EVERY_STEP

Compose = Callable[..., Experiment]
EndsTheSame = Callable[..., RunDirectory]
KINDS: dict[str, Callable[[Path], None]] = {
    "a directory": Path.mkdir,
    "a FIFO": os.mkfifo,
    "a socket": lambda path: os.mknod(path, stat.S_IFSOCK | 0o600),
}


def put(kind: str, path: Path) -> None:
    """Put something else in the place of a file or of a directory."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    KINDS[kind](path)


@pytest.mark.parametrize("kind", KINDS)
def test_only_plain_files_are_opened(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    put(kind, path)
    for use in (read_bytes, file_sha256, read_weights, lambda path: append_text(path, "x")):
        with pytest.raises(Corrupt, match=f"x is {kind}, not a file: move it away"):
            use(path)
    assert last_line(path).endswith(f"{kind}, not a file: move it away")
    (tmp_path / "unusable-x").touch()
    make_way(path)
    assert sorted(os.listdir(tmp_path)) == ["unusable-2-x", "unusable-x"]


def test_weights_that_are_a_fifo_are_not_taken_for_a_record_without_weights(
    once: Callable[..., tuple[RunDirectory, Any]], tmp_path: Path
) -> None:
    directory, _ = once(EVERY_STEP, tmp_path / "outputs")
    put("a FIFO", directory.best)
    with pytest.raises(Corrupt, match=r"best\.safetensors is a FIFO, not a file: move it away"):
        load(directory.path)


@pytest.mark.parametrize("kind", KINDS)
def test_before_a_resume(
    stopped: Callable[[int], RunDirectory], ends_the_same: EndsTheSame, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """The run resumes from the checkpoint before, and moves away what is in the place of other files."""
    directory = stopped(7)
    newest, before = directory.checkpoints
    copy = before.with_name("resume-6 (copy).0123456789abcdef.ckpt")
    shutil.copy(before, copy)
    for path in (newest, directory.config, directory.log, directory.path / "result.json", directory.path / "probes"):
        put(kind, path)
    assert directory.status == "interrupted"
    ends_the_same()
    assert said(caplog, f"{newest.name} is {kind}, not a file: move it away; the steps since the checkpoint before")
    assert not said(caplog, f"{before.name} is")
    assert said(caplog, f"{copy} is not the name of a checkpoint") and copy.exists()
    assert said(caplog, "log.txt is not a file. It is now")


@pytest.mark.parametrize("name", ["curves.csv", "checkpoints/best.safetensors"])
def test_while_it_trains(ends_the_same: EndsTheSame, tiny: Compose, name: str) -> None:
    path = RunDirectory.of(tiny(*EVERY_STEP)).path / name
    kinds = iter(["a FIFO"])  # once, because the run repeats this step

    def replace() -> None:
        for kind in kinds:
            put(kind, path)

    ends_the_same(At(12, replace))


def test_an_old_checkpoint_while_it_trains(
    ends_the_same: EndsTheSame, tiny: Compose, caplog: pytest.LogCaptureFixture
) -> None:
    """The checkpoint that would be deleted next is a directory: it is moved away, and the run goes on."""
    directory = RunDirectory.of(tiny(*EVERY_STEP))
    kinds = iter(["a directory"])

    def replace() -> None:
        for kind in kinds:
            put(kind, directory.checkpoints[-1])

    ends_the_same(At(12, replace))
    assert said(caplog, ".ckpt is not a file. It is now") and list(directory.best.parent.glob("unusable-resume-*"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_finished_run_is_not_finished(
    finished: RunDirectory, caplog: pytest.LogCaptureFixture, tmp_path: Path, kind: str
) -> None:
    for name in ("result.json", "config.yaml", "curves.csv", "probes/gate_biases.npz"):
        directory = RunDirectory(tmp_path / name / finished.id)
        shutil.copytree(finished.path, directory.path)
        put(kind, directory.path / name)
        assert not directory.done
        assert said(caplog, f"{name} is {kind}, not a file: move it away. This record is left out.")


def test_a_folder_that_is_no_seed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("seed1", "seed_old", "seed1 (copy)", "seed02", "seed"):
        (tmp_path / name).mkdir()
    assert [path.name for path in seed_directories(tmp_path)] == ["seed1"]
    assert said(caplog, "seed_old: its name is not that of a seed, such as seed1; move it out of this folder.")


@pytest.mark.parametrize("kind", KINDS)
def test_a_cache_is_made_anew(tiny: Compose, caplog: pytest.LogCaptureFixture, kind: str) -> None:
    """A cache that a killed process has left half written, with something else in the place of its files."""
    before = build.data(tiny()).streams.splits
    (folder,) = (tiny().outputs_dir / "cache").iterdir()
    for name in ("train.npy", "vocabulary.json", "seal.json"):
        put(kind, folder / name)
        (folder / f".{name}.a1b2c3d4").touch()
        assert np.array_equal(before["train"], build.data(tiny()).streams.splits["train"])
        assert not list(folder.glob(f".{name}.*")), "the temporary files of a killed process are removed"
        assert said(caplog, f"{name} is {kind}, not a file: move it away. It is rebuilt.")


@pytest.mark.parametrize("taken", ["model-0123456789ab", "model-0123456789ab/seed1"])
@pytest.mark.parametrize("make", [os.mkfifo, Path.touch, lambda path: path.symlink_to(path.name)])
def test_something_else_in_the_place_of_a_run_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, taken: str, make: Any
) -> None:
    """Otherwise a report would lack the run, and not say so."""
    cell = tmp_path / "model-0123456789ab"
    (tmp_path / taken).parent.mkdir(exist_ok=True)
    make(tmp_path / taken)
    assert [read_record(seed / "result.json") for seed in seed_directories(cell)] in ([], [None])
    assert said(caplog, f"{taken}: ") and said(caplog, "This record is left out.")
