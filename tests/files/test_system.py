"""Facts that Linux has in /proc are found another way without it: each test takes the first way away."""

import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from highway.errors import Held
from highway.files import device, system
from highway.files.writing import read_json
from highway.ledger import lease
from highway.ledger.lease import Lease, leased
from highway.run import machine
from highway.run.recorder import Recorder
from tests.support.waiting import wait_for

needs_ps = pytest.mark.skipif(shutil.which("ps") is None, reason="this system has no ps")
Command = Callable[[str, str], None]


@pytest.fixture
def without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Pretend that the system has no /proc."""
    monkeypatch.setattr(system, "PROC", tmp_path / "no proc")
    lease.this_machine.cache_clear()
    yield
    lease.this_machine.cache_clear()


@pytest.fixture
def only(without_proc: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Leave no /proc, and only the commands that a test writes; return a function of their name and output."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def write(name: str, output: str) -> None:
        (folder / f"{name}.txt").write_text(output)
        (folder / name).write_text(f"#!/bin/sh\nwhile read -r line; do echo \"$line\"; done < '{folder}/{name}.txt'\n")
        (folder / name).chmod(0o755)

    return write


@pytest.mark.parametrize("proc", [pytest.param(True, id="proc"), pytest.param(False, id="ps", marks=needs_ps)])
def test_a_process_is_known_by_its_start(proc: bool, request: pytest.FixtureRequest) -> None:
    if not proc:
        request.getfixturevalue("without_proc")
    with subprocess.Popen(["sleep", "60"]) as process:
        start = system.born(process.pid)
        assert start and start == system.born(process.pid)
        assert system.born(1) not in (start, None)
        process.kill()
        wait_for(lambda: system.born(process.pid) is None)  # it is dead, though its parent has not waited for it
        process.wait()
        assert system.born(process.pid) is None


def test_a_machine_is_known_by_its_boot_on_macos(only: Command) -> None:
    assert system.machine_identity() == system.UNKNOWN
    only("sysctl", "9A1B-22C3\n")
    assert system.machine_identity() == "9A1B-22C3"
    assert system.processor_name() == "9A1B-22C3"  # the stand-in gives every question the same answer


def test_a_processor_has_a_name(only: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert device.device_name("cpu")  # its architecture, if nothing else is known
    only("lscpu", "Architecture: aarch64\nModel name:   Neoverse-V1\n")
    assert device.device_name("cpu") == "Neoverse-V1"
    system.PROC.mkdir()
    (system.PROC / "cpuinfo").write_text("processor: 0\nmodel name\t: Model A\nprocessor: 1\nmodel name\t: Model A\n")
    assert device.device_name("cpu") == "Model A"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("fma avx2", "Model A, AVX2"),
        ("fma avx2 avx512f avx512vl avx512bw avx512dq", "Model A, AVX512"),
        ("fma avx2 avx512f", "Model A, AVX2"),  # too few for torch's kernels
        ("sse4_2", "Model A"),
    ],
)
def test_a_name_for_each_kind_of_rounding(
    without_proc: None, flags: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    system.PROC.mkdir()
    (system.PROC / "cpuinfo").write_text(f"model name\t: Model A\nflags\t\t: fpu {flags}\n")
    assert device.device_name("cpu") == expected
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    assert device.device_name("cpu") == "Model A"


def test_the_vector_instructions_are_those_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    if "ATEN_CPU_CAPABILITY" in os.environ:
        pytest.skip("torch has fewer than this processor")
    capability = torch.backends.cpu.get_cpu_capability()
    assert system.vector_instructions() == (capability if capability in system.VECTORS else "")


@pytest.mark.parametrize("known", [True, False])
def test_a_lease_of_an_unknown_process_lives_while_it_beats(known: bool, only: Command, tmp_path: Path) -> None:
    """The lease lives while its heartbeat does, if only its process's start is unknown or the machine is, too."""
    if known:
        only("sysctl", "9A1B-22C3\n")
    folder = tmp_path / "leases"
    with leased(folder) as held:
        content = read_json(held.path)
        assert (content["machine"], content["born"]) == ("9A1B-22C3" if known else system.UNKNOWN, system.UNKNOWN)
        with pytest.raises(Held), leased(folder):
            pass
        held._stop.set()  # its process hangs, or another process has its number now
        held._thread.join()
        old = time.time() - lease.STALE - 1
        os.utime(held.path, (old, old))
        latest = Lease.latest(folder)
        assert latest is not None and not latest.alive


def test_a_dead_process_is_known_dead_where_its_machine_is(only: Command, tmp_path: Path) -> None:
    """A process whose number is not in use is dead, without waiting for a heartbeat."""
    only("sysctl", "9A1B-22C3\n")
    with leased(tmp_path / "leases") as held:
        process = subprocess.Popen([sys.executable, "-c", "pass"])
        process.wait()
        held._content["pid"] = process.pid
        held._write()
        assert not Lease(held.path).alive
        lease.this_machine.cache_clear()
        only("sysctl", "another machine\n")
        assert Lease(held.path).alive


def test_nothing_is_claimed_about_neighbours_that_cannot_be_seen(
    only: Command, caplog: pytest.LogCaptureFixture
) -> None:
    neighbours = machine.Neighbours()
    assert neighbours.processors() == math.inf
    assert "install ps" in caplog.text
    recorder = Recorder.__new__(Recorder)
    recorder.exclusive_before, recorder.neighbours = True, None
    assert recorder.exclusive
    recorder.neighbours = neighbours
    assert not recorder.exclusive


def test_neighbours_are_other_peoples_processes() -> None:
    """Neither this process nor its child counts; the child of its child counts as a stranger's would."""
    spin = f"{sys.executable} -c 'while True: pass' & echo $!; wait"
    with subprocess.Popen(["sh", "-c", spin], stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        try:
            assert child.stdout
            grandchild = child.stdout.readline().strip()
            first = _seconds(grandchild)
            deadline = time.monotonic() + 30
            while _seconds(grandchild) < first + 0.05 and time.monotonic() < deadline:
                time.sleep(0.05)
            assert _seconds(grandchild) >= first + 0.05
            seen = {number for number, _ in machine._seconds_of_others()}
            assert grandchild in seen and not {str(os.getpid()), str(child.pid)} & seen
        finally:
            os.killpg(child.pid, 9)


def _seconds(process: str) -> float:
    others = machine._seconds_of_others() or {}
    return sum(seconds for (number, _), seconds in others.items() if number == process)
