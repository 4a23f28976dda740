"""A run stopped at any step and resumed ends as if never stopped: weights bit for bit, curves row for row."""

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from highway.config.experiment import Experiment
from highway.ledger.directory import RunDirectory
from highway.testing.runs import StopAt, assert_resumes_exactly, curve, same_weights, trained
from tests.support.commands import TRAIN
from tests.support.overrides import CARRY, SHORT, TINY
from tests.support.stand_ins import Stateful
from tests.support.waiting import wait_for

Compose = Callable[..., Experiment]


@pytest.fixture
def compare(tiny: Compose, once: Callable[..., Any], tmp_path: Path) -> Callable[..., None]:
    """Compare a run that nothing disturbs with one that is stopped at the given steps."""

    def run_both(overrides: tuple[str, ...], stops: list[int]) -> None:
        whole, result = once(overrides, tmp_path / "whole")
        assert result["steps"] > max(stops)
        described = tiny(*overrides)
        described.outputs_dir = tmp_path / f"stopped{stops}"
        assert_resumes_exactly(described, stops, whole, result)

    return run_both


@pytest.mark.parametrize("stops", [[6], list(range(1, 12))])
def test_exact_at_any_step(compare: Callable[..., None], stops: list[int]) -> None:
    """Stop inside an epoch; stop at every step in turn: at the end of an epoch and just after a validation, too."""
    compare(SHORT, stops)


def test_exact_with_a_schedule_of_steps(compare: Callable[..., None]) -> None:
    compare(
        (*SHORT, "optimizer=adam_cosine", "optimizer.lr=0.01", "trainer.validate_every=5", "trainer.log_every=1"),
        [3, 5, 6, 10],
    )


def test_exact_with_carried_state(compare: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highway.run.build.model", Stateful)
    compare((*CARRY, "trainer.max_steps=9", "trainer.validate_every=4", "trainer.log_every=2"), [2, 7])


def test_exact_with_the_memory_of_transformer_xl(compare: Callable[..., None]) -> None:
    overrides = (
        "model=transformer_xl",
        "dataset=enwik8",
        "gate=sdu_tanh",
        "dataset.train={lanes:7,window:20,stride:20,scored:20,memory:30}",
        "dataset.evaluation={lanes:5,window:50,stride:50,scored:50,memory:40}",
    )
    few = ("trainer.max_steps=12", "trainer.validate_every=6", "trainer.log_every=3")
    compare((*overrides, *few), [5, 8])


@pytest.mark.parametrize("validate_every", [4, 5])
def test_stopped_at_the_last_step_is_finished(tiny: Compose, validate_every: int) -> None:
    """If the signal arrives when only the tests are left, the next start runs those alone; also without validation."""
    overrides = (*SHORT, f"trainer.validate_every={validate_every}")
    _, result = trained(tiny(*overrides), StopAt(12))
    assert (result["status"], result["steps"]) == ("interrupted", 12)
    _, result = trained(tiny(*overrides))
    assert (result["status"], result["steps"]) == ("finished", 12)


def test_threads_are_kept_on_resume(tiny: Compose) -> None:
    trained(tiny(*SHORT), StopAt(3))
    _, result = trained(tiny(*SHORT, "trainer.threads=2"))
    assert result["environment"]["threads"] == 1


def test_a_run_that_began_on_a_gpu_resumes_without_one(tiny: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("torch.serialization.location_tag", lambda storage: "cuda:0")
        patch.setattr("highway.run.checkpoint.check_readable", lambda path: None)
        trained(tiny(*SHORT), StopAt(3))
    trained(tiny(*SHORT))
    checkpoints = RunDirectory.of(tiny(*SHORT)).best.parent
    assert [path.name for path in checkpoints.glob("unusable-*")] == []


def start(overrides: list[str], outputs: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, str(TRAIN), *TINY, *overrides, f"outputs_dir={outputs}"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def killed_after_a_checkpoint(process: "subprocess.Popen[bytes]", directory: RunDirectory, seconds: float) -> bool:
    """kill -9 the process some time after it has written its own checkpoint; return False if it ended before."""
    before = set(directory.checkpoints)
    wait_for(lambda: process.poll() is not None or bool(set(directory.checkpoints) - before))
    time.sleep(seconds)
    if process.poll() is not None:
        return False
    process.kill()
    process.wait()
    return True


@pytest.mark.slow
def test_kill_minus_nine(experiment: Compose, tmp_path: Path) -> None:
    """kill -9 the run at random moments inside an epoch, again and again, until it finishes."""
    overrides = [
        "gate=sdu_sigmoid",
        "trainer.max_steps=400",
        "trainer.validate_every=150",
        "trainer.checkpoint_seconds=0.2",
        "dataset.train.lanes=16",
    ]
    whole = start(overrides, tmp_path / "whole")
    randomly, kills = random.Random(7), 0
    directory = RunDirectory.of(experiment(*TINY, *overrides, f"outputs_dir={tmp_path / 'killed'}"))
    process = start(overrides, tmp_path / "killed")
    while kills < 3 and killed_after_a_checkpoint(process, directory, randomly.random() * 0.5):
        kills += 1
        process = start(overrides, tmp_path / "killed")
    assert process.wait() == 0
    assert kills >= 2
    assert whole.wait() == 0
    calm = RunDirectory(tmp_path / "whole" / directory.path.relative_to(tmp_path / "killed"))
    assert same_weights(calm.last, directory.last)
    assert curve(calm) == curve(directory)


@pytest.mark.slow
def test_a_signal_saves_and_says_interrupted(experiment: Compose, tmp_path: Path) -> None:
    overrides = ["trainer.max_steps=100000", "trainer.validate_every=100000", "trainer.log_every=1"]
    directory = RunDirectory.of(experiment(*TINY, *overrides, f"outputs_dir={tmp_path}"))
    process = start(overrides, tmp_path)
    wait_for(lambda: directory.curves.exists() and len(directory.curves.read_text().splitlines()) > 5)
    process.terminate()
    assert process.wait() == 130
    assert directory.status == "interrupted"
    assert directory.checkpoints
