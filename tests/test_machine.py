"""Processes and the processor, as the system tells them; also without Linux's /proc or the usual commands."""

import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import torch

from highway import machine
from tests.support.waiting import wait_for

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="this system has no /proc")
Command = Callable[[str, str], None]


@pytest.fixture
def without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Pretend that the system has no /proc."""
    monkeypatch.setattr(machine, "PROC", tmp_path / "no proc")
    machine.this_machine.cache_clear()
    yield
    machine.this_machine.cache_clear()


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


def test_a_process_is_known_by_its_start() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        start = machine.process_start(process.pid)
        assert start and start == machine.process_start(process.pid)
        assert machine.process_start(1) not in (start, None)
        process.kill()
        wait_for(
            lambda: machine.process_start(process.pid) is None
        )  # it is dead, though its parent has not waited for it
        process.wait()
        assert machine.process_start(process.pid) is None


@needs_proc
def test_a_start_stays_when_the_clock_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start stays when somebody sets the clock back by an hour, and with it the time of boot."""
    start = machine.process_start(os.getpid())
    assert start is not None
    (tmp_path / "stat").write_text(f"btime {psutil.boot_time() - 3600:.0f}\n")
    (tmp_path / str(os.getpid())).symlink_to("/proc/self")
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    assert machine.process_start(os.getpid()) == pytest.approx(start, abs=1e-3)


@needs_proc
def test_a_hidden_process_does_not_look_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The /proc of a shared machine may hide the processes of other users."""
    (tmp_path / "stat").write_text("btime 1700000000\n")
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    assert math.isnan(machine.process_start(os.getpid()) or 0)


def test_two_containers_are_two_machines(without_proc: None) -> None:
    assert machine.this_machine()
    names = set()
    for folder in ("sys/kernel/random", "self/ns"):
        (machine.PROC / folder).mkdir(parents=True)
    (machine.PROC / "sys/kernel/random/boot_id").write_text("9a1b-22c3\n")
    for namespace in ("pid:[1]", "pid:[2]"):
        (machine.PROC / "self/ns/pid").unlink(missing_ok=True)
        (machine.PROC / "self/ns/pid").symlink_to(namespace)
        machine.this_machine.cache_clear()
        names.add(machine.this_machine())
    assert len(names) == 2


def test_a_processor_has_a_name(only: Command) -> None:
    assert machine.processor_name()  # its architecture, if nothing else is known
    only("sysctl", "Apple M4\n")
    assert machine.processor_name() == "Apple M4"
    only("lscpu", "Architecture: aarch64\nModel name:   Neoverse-V1\n")
    assert machine.processor_name() == "Neoverse-V1"
    machine.PROC.mkdir()
    (machine.PROC / "cpuinfo").write_text("processor: 0\nmodel name\t: Model A\nprocessor: 1\nmodel name\t: Model A\n")
    assert machine.processor_name() == "Model A"


@pytest.mark.parametrize(("vectors", "suffix"), [("AVX512", ", AVX512"), ("AVX2", ", AVX2"), ("DEFAULT", "")])
def test_a_name_for_each_kind_of_rounding(vectors: str, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: vectors)
    assert machine.device_name("cpu") == machine.processor_name() + suffix
