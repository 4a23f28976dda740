"""A file of another run, put where a run's own file was, is not taken for it; nor is a file that has changed."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from highway.config.experiment import Experiment
from highway.config.home import REFERENCE
from highway.data import sample
from highway.data.cache import cached
from highway.errors import Corrupt, Refused
from highway.files import seal
from highway.files.writing import write_text, written_atomically
from highway.ledger.directory import RunDirectory
from highway.ledger.identity import identity, run_name
from highway.ledger.record import read_record
from highway.run import build
from highway.run.checkpoint import check_weights, resumable, save_weights
from highway.run.recorder import Recorder
from highway.testing.runs import At, StopAt, trained
from highway.use.load import experiment_of, load
from tests.support.overrides import EVERY_STEP

Compose = Callable[..., Experiment]
Once = Callable[..., tuple[RunDirectory, dict[str, Any]]]
OTHERS = {"seed": ("seed=2",), "gate": ("gate=none",), "rate": ("optimizer.lr=4",)}


def exchange(kind: str, directory: RunDirectory, other: RunDirectory) -> None:
    """Put files of another run in the place of a run's own; a checkpoint without its curve would be refused anyway."""
    if "checkpoint " in f"{kind} ":
        for path in directory.checkpoints:
            path.unlink()
        shutil.copy(other.checkpoints[0], directory.best.parent)
    for name in ("curves.csv", "config.yaml", "checkpoints/best.safetensors"):
        if name in kind:
            shutil.copy(other.path / name, directory.path / name)


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize(
    "kind", ["checkpoint", "checkpoint and curves.csv", "checkpoints/best.safetensors", "curves.csv", "config.yaml"]
)
def test_a_file_of_another_run_before_a_resume(
    once: Once, tmp_path: Path, ends_the_same: Callable[..., RunDirectory], kind: str, other: str
) -> None:
    """Both have stopped after one validation, so the steps of their best weights agree."""
    directory, _ = once(EVERY_STEP, tmp_path / "outputs", 5)
    theirs, _ = once((*EVERY_STEP, *OTHERS[other]), tmp_path / "theirs", 5)
    exchange(kind, directory, theirs)
    ends_the_same()


@pytest.mark.parametrize("other", OTHERS)
def test_a_finished_run_in_the_directory_of_another(
    once: Once, tmp_path: Path, ends_the_same: Callable[..., RunDirectory], other: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The directory of another run, with all of its valid checksums, is neither a result nor a point to resume from."""
    directory, _ = once(EVERY_STEP, tmp_path / "outputs")
    theirs, _ = once((*EVERY_STEP, *OTHERS[other]), tmp_path / "theirs")
    shutil.rmtree(directory.path)
    shutil.copytree(theirs.path, directory.path)
    assert directory.result() is None and f"it belongs to {theirs.id}" in caplog.text
    with pytest.raises(Refused, match=f"belongs to {theirs.id}, not to {directory.id}. Name the file"):
        load(directory.path)
    ends_the_same()
    assert list(directory.best.parent.glob("unusable-*")), "a checkpoint that cannot be used is kept under another name"


@pytest.mark.parametrize("last", [False, True])
def test_weights_of_another_step_are_not_those_of_the_record(
    once: Once, tiny: Compose, tmp_path: Path, last: bool
) -> None:
    directory, record = once(EVERY_STEP, tmp_path / "outputs")
    path, step = (directory.last, record["steps"]) if last else (directory.best, record["best_step"])
    load(directory.path, last)
    header = {"config": directory.config.read_text(), "run": directory.id}
    save_weights(build.model(tiny(*EVERY_STEP)), path, header, step - 1)
    with pytest.raises(Refused, match=f"the weights of step {step - 1}, but result.json says step {step}. Name the"):
        load(directory.path, last)
    load(path)


@pytest.mark.parametrize("kind", ["curves.csv", "config.yaml"])
def test_a_file_that_changes_while_the_run_trains(
    ends_the_same: Callable[..., RunDirectory], tiny: Compose, kind: str
) -> None:
    path = RunDirectory.of(tiny(*EVERY_STEP)).path / kind

    digits = iter("2")  # once, because the run repeats this step

    def change() -> None:
        path.write_text(path.read_text().replace("1", next(digits, "1")))

    ends_the_same(At(12, change))


@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("stopped", [False, True])
def test_a_curve_that_changes_as_a_start_begins_it(
    ends_the_same: Callable[..., RunDirectory],
    tiny: Compose,
    monkeypatch: pytest.MonkeyPatch,
    stopped: bool,
    removed: bool,
) -> None:
    """Neither the head of a new curve nor the part that a resumed run keeps is taken as it lies there."""
    path, digits = RunDirectory.of(tiny(*EVERY_STEP)).curves, iter("2")
    if stopped:
        trained(tiny(*EVERY_STEP), StopAt(5))
    done = os.truncate if stopped else write_text

    def late(target: Path, content: Any) -> None:
        done(target, content)
        if target == path and (digit := next(digits, None)):
            path.unlink() if removed else path.write_text(path.read_text().replace("e", digit))

    monkeypatch.setattr(*(("os.truncate",) if stopped else ("highway.run.recorder.write_text",)), late)
    ends_the_same()
    assert next(digits, None) is None


def test_a_cache_that_changes_while_the_run_trains(ends_the_same: Callable[..., RunDirectory], tiny: Compose) -> None:
    """The run trains on what it has read and checked, also if the blocks of its cache are swapped in place."""

    def swap() -> None:
        (path,) = (tiny().outputs_dir / "cache").glob("*/train.npy")
        content = path.read_bytes()
        path.write_bytes(content[:200] + content[:199:-1])

    ends_the_same(At(3, swap))


def test_files_from_before_they_named_their_run(once: Once, tiny: Compose, tmp_path: Path) -> None:
    """They are checked against the configuration beside them: a run under way goes on, another seed's does not."""
    directory, _ = once(EVERY_STEP, tmp_path / "outputs", 3)
    content = torch.load(directory.checkpoints[0], weights_only=True)
    del content["callbacks"][Recorder.state_key]["run"]
    for path in directory.checkpoints:
        path.unlink()
    with written_atomically(directory.best.with_name("resume-3.ckpt"), sealed=True) as file:
        torch.save(content, file)
    resumed = resumable(directory, forget=False)
    assert resumed is not None and resumed.path == directory.checkpoints[0]
    ours = directory.config.read_text()
    theirs = ours.replace("seed: 1", "seed: 2")
    directory.config.write_text(theirs)
    assert resumable(directory, forget=False) is None

    model = build.model(tiny(*EVERY_STEP))
    save_weights(model, directory.best, {"config": ours}, 3)
    check_weights(directory.best, directory.id, 3)
    save_weights(model, directory.best, {"config": theirs}, 3)
    with pytest.raises(Corrupt, match=f"belongs to {directory.name}/seed2"):
        check_weights(directory.best, directory.id, 3)


def test_a_run_goes_on_only_with_its_own_text(
    once: Once, tiny: Compose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once(EVERY_STEP, tmp_path / "outputs", 3)
    monkeypatch.setitem(sample.SENTENCES, "train", 301)
    sample.penn_treebank.cache_clear()
    with pytest.raises(Refused, match=r"The data have changed since step 3 of .*seed1\. Restore them, or move"):
        trained(tiny(*EVERY_STEP))


def test_published_records_are_those_of_their_directories() -> None:
    """Each was written before files named their run; its configuration and revision give the name of its directory."""
    configurations = list(REFERENCE.glob("cells/*/seed*/config.yaml"))
    assert len(configurations) >= 58
    for path in configurations:
        result = read_record(path.with_name("result.json"))
        assert result is not None, path
        if "rows" not in result:  # a timing has the configurations of several rows
            described = experiment_of(path.read_text(), RunDirectory(path.parent))
            name = run_name(described.model.name, {**identity(described), "revision": result["revision"]})
            assert (name, f"seed{described.seed}") == path.parts[-3:-1]


def test_the_cache_of_another_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A whole cache, with all of its valid checksums, in the place of the cache of another text is made anew."""

    def read(text: str) -> dict[str, bytes]:
        return cached(tmp_path, "x", [text], lambda folder: write_text(folder / "text", text))

    assert read("ours") == {"text": b"ours"}
    (mine,) = tmp_path.iterdir()
    assert read("theirs") == {"text": b"theirs"}
    (theirs,) = set(tmp_path.iterdir()) - {mine}
    shutil.rmtree(mine)
    shutil.copytree(theirs, mine)
    assert read("ours") == {"text": b"ours"}
    assert f"{mine} does not say that it was made from this data. It is rebuilt." in caplog.text


def test_equal_runs_write_equal_weights(once: Once, tiny: Compose, whole: tuple[RunDirectory, dict[str, Any]]) -> None:
    """Files of equal weights are equal byte for byte; the order of their headers does not change."""
    directory, _ = trained(tiny(*EVERY_STEP))
    assert directory.last.read_bytes() == whole[0].last.read_bytes()
    assert directory.best.read_bytes() == whole[0].best.read_bytes()


@pytest.mark.parametrize("kind", ["curves.csv", "config.yaml", "probes/gate_biases.npz"])
def test_a_file_that_changes_just_before_its_checksum_is_taken(
    ends_the_same: Callable[..., RunDirectory], tiny: Compose, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A record never seals what something else has written: the run is resumed, and ends as it should."""
    path, once_only = RunDirectory.of(tiny(*EVERY_STEP)).path / kind, iter([True])
    checksums = seal.checksums

    def late(folder: Path, paths: Any) -> dict[str, str]:
        if folder == path.parents[kind.count("/")] and next(once_only, False):
            path.write_bytes(path.read_bytes()[:-1] + b"7")
        return checksums(folder, paths)

    monkeypatch.setattr(seal, "checksums", late)
    ends_the_same()
    assert not path.read_bytes().endswith(b"7")


def itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.write_text("3412"), "was changed by something else after it was written"),
        (itself, "is a link that leads back to itself: move it away"),
        (lambda path: path.unlink() or path.symlink_to("nothing"), "is a link to nothing: move it away"),
    ],
)
def test_a_cache_that_changes_just_before_its_checksum_is_taken(
    tmp_path: Path, change: Callable[[Path], Any], message: str
) -> None:
    def make(folder: Path) -> None:
        write_text(folder / "train.npy", "1234")
        change(folder / "train.npy")

    with pytest.raises(Corrupt, match=rf"train\.npy {message}"):
        cached(tmp_path, "cache", ["recipe"], make)


@pytest.mark.parametrize("gone", [False, True])
def test_a_configuration_that_changes_before_the_run_reads_it(
    ends_the_same: Callable[..., RunDirectory], tiny: Compose, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    """The weights of a run state its own configuration, not the one that something else has put there."""
    path, build_data, once_only = RunDirectory.of(tiny(*EVERY_STEP)).config, build.data, iter([True])

    def late(experiment: Experiment) -> Any:
        if next(once_only, False):
            path.unlink() if gone else path.write_text(path.read_text().replace("seed: 1", "seed: 2"))
        return build_data(experiment)

    monkeypatch.setattr(build, "data", late)
    best = ends_the_same().best
    with safe_open(best, "pt") as file:
        assert file.metadata()["config"] == path.read_text()


def test_a_configuration_that_is_lost_while_the_run_trains(
    ends_the_same: Callable[..., RunDirectory], tiny: Compose
) -> None:
    path = RunDirectory.of(tiny(*EVERY_STEP)).config
    ends_the_same(At(12, lambda: path.unlink()))


def test_a_checkpoint_that_changes_after_it_was_chosen(
    stopped: Callable[[int], RunDirectory], ends_the_same: Callable[..., RunDirectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, build_data = stopped(7).checkpoints[0], build.data

    def late(experiment: Experiment) -> Any:
        if path.exists():
            path.write_bytes(path.read_bytes()[::-1])
        return build_data(experiment)

    monkeypatch.setattr(build, "data", late)
    ends_the_same()
    assert not path.exists()
