"""Several devices and parts of batches: the experiment stays the same as on one device, in one part.

A run on two processes is a real one, from the command line; its results are compared with those of one process.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from highway.config.compose import experiment as composed
from highway.config.experiment import Experiment
from highway.data.batches import lanes_of
from highway.data.windows import TextBatch
from highway.ledger.directory import RunDirectory
from highway.ledger.files import read_json
from highway.machine import process_start
from highway.models.backbone import joined
from highway.run import build
from highway.run.devices import other_processes
from highway.tasks.task import rows_of
from highway.testing.runs import StopAt, curve, trained
from tests.support.commands import ROOT, TRAIN
from tests.support.overrides import EXAMPLES, PAIRS, TINY
from tests.support.stand_ins import trainer, waits
from tests.support.waiting import wait_for

Compose = Callable[..., Experiment]
FEW = ("trainer.max_steps=6", "trainer.validate_every=4", "trainer.log_every=2", "trainer.precision=64")
NO_DROPOUT = ("model.dropout=0", "model.dropout_attention=0", "model.dropout_feed_forward=0")
WORDS = (*TINY, "dataset=ptb_word", *NO_DROPOUT, "model.dropout_embedding=0", "dataset.train.lanes=5")
MEMORY = (*TINY, "model=transformer_xl", "dataset=enwik8", "gate=sdu_tanh", "model.dropout=0",
    "dataset.train={lanes:7,window:20,stride:20,scored:20,memory:30}",
    "dataset.evaluation={lanes:45,window:50,stride:50,scored:50,memory:40}")  # fmt: skip
STATE = ("model=rhn", "model.width=12", "model.depth=3", "dataset=ptb_word_rhn", "optimizer=sgd_rhn", "trainer=rhn",
    "layers=none", "budget=smoke", "dataset.train.lanes=5", "dataset.evaluation.lanes=33", "trainer.accelerator=cpu",
    "trainer.threads=1", "model.dropout_embedding_words=0", "model.dropout_input=0", "model.dropout_state=0",
    "model.dropout_output=0")  # fmt: skip
TASKS = {
    "words": WORDS,
    "memory": MEMORY,
    "state": STATE,
    "images": (*EXAMPLES["images"], *NO_DROPOUT, "dataset.batch=9"),
    "tunes": (*EXAMPLES["tunes"], "model.dropout=0", "dataset.batch=5"),
    "pairs": (*PAIRS, *NO_DROPOUT, "model.dropout_embedding=0"),
}


def assert_agree(expected: RunDirectory, actual: RunDirectory, tolerance: float) -> None:
    """Check that weights and curves agree, to `tolerance` of the largest weight, and of each value."""
    for name in ("last", "best"):
        first, second = (load_file(getattr(directory, name)) for directory in (expected, actual))
        assert first.keys() == second.keys()
        for key, tensor in first.items():
            torch.testing.assert_close(second[key], tensor, rtol=tolerance, atol=tolerance)
    assert [row[:-1] for row in curve(expected)] == [row[:-1] for row in curve(actual)], (
        "the same steps, epochs and tokens"
    )
    first_values, second_values = ([float(row[-1]) for row in curve(directory)] for directory in (expected, actual))
    assert second_values == pytest.approx(first_values, rel=tolerance, abs=tolerance)


# Shares


@pytest.mark.parametrize(("lanes", "shares", "sizes"), [(22, 4, [6, 6, 5, 5]), (5, 2, [3, 2]), (1, 2, [1, 0])])
def test_lanes_of_each_device(lanes: int, shares: int, sizes: list[int]) -> None:
    parts = [list(range(lanes))[lanes_of(lanes, share, shares)] for share in range(shares)]
    assert [len(part) for part in parts] == sizes
    assert [lane for part in parts for lane in part] == list(range(lanes))


@pytest.mark.parametrize("task", ["words", "memory", "state"])
def test_uneven_lanes_weigh_as_many_as_they_are(
    experiment: Compose, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    """The objectives of 4 devices, averaged as in Lightning, equal that of all lanes; tokens count all lanes."""
    described = experiment(*TASKS[task], "dataset.train.lanes=22", "trainer.precision=64")
    module, data = build.task(described).double().eval(), build.data(described)
    (batch,) = (data._windows("train").at(0),)
    whole = module.learn(batch)
    tokens = module.tokens(batch)
    monkeypatch.setattr(type(module), "devices", 4)
    module.states = [None]
    parts = []
    for share in range(4):
        module.states = [None]
        parts.append(module.learn(data._windows("train", share, 4).at(0)))
        assert module.tokens(data._windows("train", share, 4).at(0)) == tokens == batch.inputs.numel()
    torch.testing.assert_close(sum(part.objective for part in parts) / 4, whole.objective, rtol=1e-12, atol=0)
    torch.testing.assert_close(sum(part.nats for part in parts), whole.nats, rtol=1e-12, atol=0)
    assert sum(part.scored for part in parts) == whole.scored


def test_a_device_without_a_lane_evaluates_nothing(experiment: Compose) -> None:
    """The trained RHN is evaluated in one lane, which the first device takes; the second has nothing to evaluate."""
    data = build.data(experiment(*STATE, "trainer.devices=2"))
    data.final = True
    scored = []
    for share in range(2):
        data.device_share = lambda share=share: (share, 2)  # type: ignore[method-assign]
        scored.append(sum(batch.targets.numel() for batch in data.evaluated("test")))
    assert scored == [len(data.streams.splits["test"]) - 1, 0]


def test_rows_of_a_batch_keep_what_is_said_of_the_whole() -> None:
    batch = TextBatch(torch.arange(12).view(4, 3), torch.arange(8).view(4, 2), 1)
    part = rows_of(batch, slice(1, 3))
    assert (part.inputs.tolist(), part.targets.tolist(), part.unscored) == ([[3, 4, 5], [6, 7, 8]], [[2, 3], [4, 5]], 1)


def test_states_of_parts_are_joined_lane_by_lane() -> None:
    whole = (torch.arange(5), [torch.randn(5, 2), torch.randn(5, 3, 1)])
    parts = [(whole[0][rows], [tensor[rows] for tensor in whole[1]]) for rows in (slice(0, 3), slice(3, 5))]
    actual = joined(parts)
    assert torch.equal(actual[0], whole[0]) and all(map(torch.equal, actual[1], whole[1]))
    assert joined([None, None]) is None and joined([whole]) is whole


# Parts of a batch


@pytest.mark.parametrize("task", TASKS)
def test_parts_of_a_batch_are_the_whole_batch(
    experiment: Compose, request: pytest.FixtureRequest, tmp_path: Path, task: str
) -> None:
    """Uneven parts (5 and 7 lanes, 9 images, 5 tunes in 3) give the weights, curves, losses and norms within 1e-8."""
    if task == "memory":
        request.getfixturevalue("tiny")  # makes the text shorter
    directories = []
    for parts in (1, 3):
        described = experiment(*TASKS[task], *FEW, f"trainer.accumulate={parts}", f"outputs_dir={tmp_path}/{parts}")
        directory, result = trained(described)
        assert result["status"] == "finished", result["error"]
        directories.append(directory)
    assert directories[0].path.name == directories[1].path.name, "the experiment is the same"
    assert_agree(*directories, 1e-8)


def test_a_run_in_parts_goes_on_in_others(tiny: Compose, tmp_path: Path) -> None:
    """Each part carries its own state, and the checkpoint has the states of all lanes in order."""
    whole, _ = trained(tiny(*MEMORY, *FEW, f"outputs_dir={tmp_path}/whole"))
    for parts, stop in ((2, 3), (3, 5)):
        described = tiny(*MEMORY, *FEW, f"trainer.accumulate={parts}", f"outputs_dir={tmp_path}/moved")
        directory, result = trained(described, StopAt(stop))
        assert (result["status"], result["steps"]) == ("interrupted", stop)
    directory, result = trained(tiny(*MEMORY, *FEW, f"outputs_dir={tmp_path}/moved"))
    assert result["status"] == "finished"
    assert_agree(whole, directory, 1e-8)


def test_parts_in_bf16(experiment: Compose, tmp_path: Path) -> None:
    losses = []
    for parts in (1, 2):
        overrides = ("trainer.precision=bf16", f"trainer.accumulate={parts}", f"outputs_dir={tmp_path}/{parts}")
        _, result = trained(experiment(*WORDS, *FEW, *overrides))
        losses.append(result["metrics"]["valid_loss"]["last"])
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)  # a missed update: 1.8 %


# Signals


@pytest.mark.parametrize(("handled", "status"), [(signal.SIG_DFL, "interrupted"), (signal.SIG_IGN, "finished")])
def test_a_closed_terminal_saves_but_not_under_nohup(tiny: Compose, handled: signal.Handlers, status: str) -> None:
    before = signal.signal(signal.SIGHUP, handled)  # the tests themselves may run under nohup
    try:
        directory, result = trained(tiny(*FEW), StopAt(3, signal.SIGHUP))
        assert result["status"] == status and directory.checkpoints
        assert signal.getsignal(signal.SIGHUP) == handled
    finally:
        signal.signal(signal.SIGHUP, before)


# Two processes


def start(folder: Path, devices: int, *overrides: str) -> "subprocess.Popen[str]":
    command = [sys.executable, str(TRAIN), *overrides, f"trainer.devices={devices}", f"outputs_dir={folder}"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(folder: Path, devices: int, *overrides: str) -> RunDirectory:
    """Train until the end, and return the run. No message comes twice."""
    process = start(folder, devices, *overrides)
    said, complained = process.communicate(timeout=300)
    directory = directory_in(folder, *overrides)
    result = read_json(directory.path / "result.json")
    assert process.returncode == 0 and result["status"] == "finished", complained
    assert result["environment"]["processes"] == devices
    lines = (said + complained).splitlines()
    assert len(set(lines)) == len(lines)
    return directory


def directory_in(folder: Path, *overrides: str) -> RunDirectory:
    return RunDirectory.of(composed([*overrides, f"outputs_dir={folder}"]))


def children(process: "subprocess.Popen[str]") -> list[int]:
    """Return the process ids of the other ranks that a run has started."""
    pids = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in pids if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]


LONG = ("trainer.max_steps=100000", "trainer.validate_every=100000", "trainer.log_every=1", "trainer.precision=64")


@pytest.mark.slow
@pytest.mark.parametrize("task", ["words", "pairs"])
def test_two_processes_agree_with_one(tmp_path: Path, task: str) -> None:
    """Two processes, each of which trains in two parts, share 5 lanes as 3 and 2, and evaluate each sentence once."""
    overrides = (*TASKS[task], *FEW)
    single = ended(tmp_path / "one", 1, *overrides)
    two = ended(tmp_path / "two", 2, *overrides, "trainer.accumulate=2")
    assert_agree(single, two, 1e-8)
    losses = [read_json(directory.path / "result.json")["metrics"]["test_loss"] for directory in (single, two)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(("task", "debug"), [("pairs", "debug=overfit"), ("words", "debug.windows=1")])
def test_a_device_may_have_no_batch_to_evaluate(tmp_path: Path, task: str, debug: str) -> None:
    """The devices do not wait for one another in an evaluation of one batch."""
    ended(tmp_path, 2, *TASKS[task], *FEW, debug, "debug.steps=3")


@pytest.mark.slow
def test_a_run_moves_between_numbers_of_processes(tmp_path: Path) -> None:
    """A run that moves gives the result of an undisturbed run on one process.

    It starts on two processes, where a SIGTERM to the first stops it, continues and stops on one, and ends on two.
    """
    overrides = (*MEMORY, "trainer.precision=64", "trainer.max_steps=60", "trainer.validate_every=40")
    overrides = (*overrides, "trainer.log_every=7", "trainer.checkpoint_seconds=0.1")
    whole = ended(tmp_path / "whole", 1, *overrides)
    directory, steps = directory_in(tmp_path / "moved", *overrides), [0]
    for devices in (2, 1):
        process = start(tmp_path / "moved", devices, *overrides)
        before = set(directory.checkpoints)
        wait_for(lambda before=before: bool(set(directory.checkpoints) - before), 240)  # type: ignore[misc]
        others = children(process)
        assert len(others) == devices - 1
        process.terminate()
        process.communicate(timeout=60)
        assert process.returncode == 130
        assert [process_start(other) for other in others] == [None] * (devices - 1)
        steps.append(read_json(directory.path / "result.json")["steps"])
    assert 0 < steps[1] < steps[2] < 60
    ended(tmp_path / "moved", 2, *overrides)
    assert_agree(whole, directory, 1e-8)


@pytest.mark.slow
def test_kill_minus_nine_of_one_process_ends_all(tmp_path: Path) -> None:
    """After kill -9 of another rank the first reports it; after kill -9 of the first no orphans are left."""
    overrides = (*WORDS, *LONG, "trainer.checkpoint_seconds=0.1")
    directory, process = directory_in(tmp_path, *overrides), start(tmp_path, 2, *overrides)
    wait_for(lambda: bool(directory.checkpoints), 240)
    os.kill(children(process)[0], signal.SIGKILL)
    _, complained = process.communicate(timeout=60)
    result = read_json(directory.path / "result.json")
    assert (process.returncode, result["status"]) == (130, "interrupted"), complained
    assert (
        result["error"] == "process 2 of 2 was killed by SIGKILL; the same command continues from the last checkpoint"
    )
    assert "Traceback" not in complained

    before = set(directory.checkpoints)
    process = start(tmp_path, 3, *overrides)
    wait_for(lambda: bool(set(directory.checkpoints) - before), 240)
    others = children(process)
    assert len(others) == 2
    process.kill()
    process.communicate()
    wait_for(lambda: all(process_start(other) is None for other in others), 10)
    assert directory.status == "interrupted"


# Companions


@pytest.mark.parametrize(("processes", "external"), [(1, False), (2, True)])
def test_nothing_is_started_for_one_device_or_under_srun(processes: int, external: bool) -> None:
    before = dict(os.environ)
    with other_processes(trainer(processes, external), waits):
        assert dict(os.environ) == before and not multiprocessing.active_children()


WAITING = """
from highway.run import devices
from tests.support.stand_ins import fails, trainer, waits
devices.GRACE = 0.5
if __name__ == "__main__":
    with devices.other_processes(trainer(2), {work}):
        import os, signal, multiprocessing, time
        if {kill}:
            os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)
        time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "kill", "sentence"),
    [
        ("waits", True, "error: process 2 of 2 was killed by SIGKILL."),
        ("fails", False, "error: another process of this run has failed."),
    ],
)
def test_a_process_that_waits_for_one_that_is_gone_ends(tmp_path: Path, work: str, kill: bool, sentence: str) -> None:
    """A process that waits for a dead one ends, even inside a collective on CUDA, which notices nothing."""
    script = tmp_path / "waiting.py"
    script.write_text(WAITING.format(work=work, kill=kill))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, env=environment)
    assert (done.returncode, done.stderr.strip()) == (1, sentence)
