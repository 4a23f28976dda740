"""The message of a run when memory runs out, and what its record says about the machine."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch

from highway.config.experiment import Experiment
from highway.ledger.record import check_record
from highway.run import build, outcome, resources
from highway.run.recorder import Recorder
from highway.testing.runs import trained
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[2]
MIB = 2**20
Compose = Callable[..., Experiment]
SPIN = f"{sys.executable} -c 'while True: pass'"


@pytest.mark.parametrize(
    ("failure", "where"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore"), "the GPU"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 8 bytes"), "this machine"),
        (MemoryError(), "this machine"),
    ],
)
def test_out_of_memory_says_where_and_what_to_type(tiny: Compose, failure: Exception, where: str) -> None:
    sentence = outcome.failure_message(failure, tiny("trainer.accumulate=2").trainer)
    assert sentence.startswith(
        f"{where} ran out of memory: type trainer.accumulate=3 to compute each batch in 3 parts, or "
        f"trainer.evaluation_batch=1 if an evaluation needed the memory ({type(failure).__name__}: "
    )
    assert "\n" not in sentence
    assert outcome.failure_message(ValueError("another"), tiny().trainer) == "ValueError: another"


def test_a_run_that_is_out_of_memory_fails_with_that_sentence(tiny: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*_: object) -> None:
        torch.empty(1 << 60)

    monkeypatch.setattr(build, "task", too_large)
    _, result = trained(tiny())
    assert result["status"] == "failed"
    assert result["error"].startswith("this machine ran out of memory: type trainer.accumulate=2 to compute")


def test_a_record_has_the_load_average(tiny: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    loads = iter([0.123, 4.5])
    monkeypatch.setattr(resources.os, "getloadavg", lambda: (next(loads), 0.0, 0.0))
    _, result = trained(tiny("trainer.max_steps=2", "trainer.validate_every=2"))
    assert result["cost"]["load_average"] == {"start": 0.12, "end": 4.5}
    check_record(result)
    monkeypatch.delattr(resources.os, "getloadavg")
    assert resources.load_average() is None
    result["cost"]["load_average"] = {"start": None, "end": None}
    check_record(result)


def test_the_peak_is_of_this_program_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The peak excludes the program that started this one. getrusage includes it, so it serves only without /proc."""
    monkeypatch.setattr(resources.resource, "getrusage", lambda _: SimpleNamespace(ru_maxrss=1 << 40))
    if Path("/proc/self/status").exists():
        assert 50 * MIB < resources.peak_memory_bytes() < 1 << 40
    monkeypatch.setattr(resources, "Path", lambda _: tmp_path / "nothing")
    assert resources.peak_memory_bytes() >= 1 << 40


@pytest.fixture
def idle() -> Iterator[psutil.Process]:
    """A process that does nothing: it stands for one that trains, so that only its relatives spend time."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield psutil.Process(process.pid)
        process.kill()


@pytest.fixture
def busy() -> Iterator[psutil.Process]:
    """A process that waits for its child, whose own child is busy."""
    with subprocess.Popen(["sh", "-c", f'sh -c "{SPIN} & wait" & wait'], start_new_session=True) as process:
        yield psutil.Process(process.pid)
        os.killpg(process.pid, signal.SIGKILL)


def test_processes_of_nobody_in_the_run_are_neighbours() -> None:
    number = subprocess.check_output(f"{SPIN} > /dev/null & echo $!", shell=True, text=True)
    stranger, neighbours = psutil.Process(int(number)), resources.Neighbours()
    try:
        wait_for(lambda: sum(stranger.cpu_times()[:2]) > 0.5)
        assert neighbours.processors() > resources.QUIET / 2  # this machine may have few processors, and more to do
    finally:
        stranger.kill()


def test_descendants_are_no_neighbours(busy: psutil.Process) -> None:
    wait_for(lambda: resources._seconds_of_run(busy) > 0.2)


def test_a_child_that_has_ended_is_no_neighbour() -> None:
    before = resources._seconds_of_run(psutil.Process())
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: pass"], check=True)
    assert resources._seconds_of_run(psutil.Process()) > before + 0.4  # the system counts in ticks of 0.01


def test_processes_of_srun_are_no_neighbours(
    idle: psutil.Process, busy: psutil.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """srun starts all processes of a run, here two: `idle`, which asks, and `busy`."""
    wait_for(lambda: resources._seconds_of_run(busy) > 0.2)
    spinning = busy.children(recursive=True)[-1]
    assert resources._seconds_of_run(idle) < 0.1
    monkeypatch.setattr(resources, "started_by_srun", lambda: 2)
    before, spent = resources._seconds_of_run(idle), sum(spinning.cpu_times()[:2])
    wait_for(lambda: sum(spinning.cpu_times()[:2]) > spent + 0.5)
    assert resources._seconds_of_run(idle) > before + 0.4


def test_neighbours_are_counted_where_proc_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where users cannot see one another's processes (hidepid), psutil cannot list children."""

    def closed(*_: object, **__: object) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil.Process, "children", closed)
    assert resources._seconds_of_run(psutil.Process()) > 0


@pytest.mark.parametrize(
    ("before", "slots", "processors", "exclusive"),
    [(True, "1", 0.1, True), (True, "1", 0.5, False), (True, "2", 0.1, False), (False, "1", 0.1, False)],
)
def test_a_run_is_exclusive_if_nothing_else_ran_in_any_start(
    before: bool, slots: str, processors: float, exclusive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIGHWAY_SLOTS", slots)
    monkeypatch.setattr(resources.Neighbours, "processors", lambda _: processors)
    recorder = Recorder.__new__(Recorder)
    recorder.exclusive_before, recorder.neighbours = before, resources.Neighbours()
    assert recorder.exclusive is exclusive
