"""Runs that the local launcher forks from a server: equal to those of new processes, and stopped and lost like them."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from highway.config.experiment import Experiment
from highway.files.writing import read_json
from highway.ledger.directory import RunDirectory
from highway.sweep import forks
from highway.sweep.engine import Job
from highway.sweep.forks import ForkServer
from highway.testing.runs import same_weights
from tests.support.overrides import TINY
from tests.support.waiting import wait_for

# Two threads: OpenBLAS then has a thread of its own, which a fork ends
RUN = ("train", *TINY, "gate=sdu_tanh", "model.dropout=0.3", "trainer.threads=2", "trainer.validate_every=3")
SHORT = ("trainer.max_steps=6",)
LONG = ("trainer.max_steps=100000", "trainer.checkpoint_seconds=0")
Begin = Callable[..., tuple[Job, RunDirectory]]


def _not_afresh() -> Job:
    raise AssertionError("the server has refused a run")


@pytest.fixture
def server() -> Iterator[ForkServer]:
    server = ForkServer({**os.environ, "OMP_NUM_THREADS": "2"})
    yield server
    server.close()


@pytest.fixture
def begin(server: ForkServer, tmp_path: Path, experiment: Callable[..., Experiment]) -> Begin:
    """Return a function that forks a run, and returns its job and directory."""

    def begun(*overrides: str) -> tuple[Job, RunDirectory]:
        directory = RunDirectory.of(experiment(*RUN[1:], *overrides, f"outputs_dir={tmp_path}/forked"))
        arguments = ["highway", *RUN, *overrides, f"outputs_dir={tmp_path}/forked"]
        with open(tmp_path / "log.txt", "ab") as log:
            return server.start(arguments, log.fileno(), "a run", _not_afresh), directory

    return begun


def test_a_forked_run_equals_a_new_process(begin: Begin, tmp_path: Path) -> None:
    jobs = [begin("seed=1", *SHORT), begin("seed=2", *SHORT)]
    command = [sys.executable, "-m", "highway", *RUN, "seed=2", *SHORT, f"outputs_dir={tmp_path}/new"]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "2"})
    for job, directory in jobs:
        job.wait()
        assert job.poll() == 0, (tmp_path / "log.txt").read_text()
        assert directory.status == "finished"
    assert "finished" in (tmp_path / "log.txt").read_text()
    _, forked = jobs[1]
    new = RunDirectory(tmp_path / "new" / forked.path.relative_to(tmp_path / "forked"))
    for name in ("best", "last"):
        assert same_weights(getattr(forked, name), getattr(new, name))
    records = [read_json(directory.path / "result.json") for directory in (forked, new)]
    values = [{name: value for name, value in record["metrics"].items() if "seconds" not in name} for record in records]
    assert values[0] == values[1]
    assert records[0]["environment"] == records[1]["environment"]
    assert records[0]["command"] == records[1]["command"].replace(f"{tmp_path}/new", f"{tmp_path}/forked")


def test_a_forked_run_is_stopped_and_lost_like_any_other(server: ForkServer, begin: Begin) -> None:
    """SIGTERM, to the run or by the death of the server, saves a checkpoint; later runs are then started afresh."""
    stopped, directory = begin("seed=3", *LONG)
    lost, other = begin("seed=4", *LONG)
    wait_for(lambda: bool(directory.progress and other.progress), 300)
    stopped.stop()
    stopped.wait()
    assert (stopped.poll(), directory.status) == (130, "interrupted")
    assert list(directory.path.glob("checkpoints/resume-*.ckpt"))
    assert lost.poll() is None

    server.process.send_signal(signal.SIGKILL)
    lost.wait()
    assert (lost.poll(), other.status) == (forks.LOST, "interrupted")
    assert list(other.path.glob("checkpoints/resume-*.ckpt"))
    with open(os.devnull, "ab") as log:
        assert server.start(["highway", *RUN], log.fileno(), "a run", lambda: stopped) is stopped


def test_a_run_that_is_stopped_before_it_begins_does_not_begin(begin: Begin) -> None:
    job, directory = begin("seed=5", *SHORT)
    job.stop()
    job.wait()
    assert job.poll() == -signal.SIGTERM
    assert directory.status == "waiting"


@pytest.mark.parametrize("fault", ["a thread", "changed code", "changed packages"])
def test_a_server_that_may_not_fork_says_so(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, packages = tmp_path / "code", tmp_path / "site-packages"
    code.mkdir()
    packages.mkdir()
    (code / "gate.py").write_text("1")
    monkeypatch.setattr(forks, "CODE", code)
    monkeypatch.setattr(sys, "path", [*sys.path, str(packages)])
    monkeypatch.setenv(forks.SWEEP, "0")
    monkeypatch.setattr(forks, "_alone", lambda: fault != "a thread")
    if fault == "changed code":
        monkeypatch.setattr(forks, "import_module", lambda name: (code / "gate.py").write_text("22"))
    elif fault == "changed packages":
        monkeypatch.setattr(forks, "import_module", lambda name: (packages / "torch").mkdir())
    monkeypatch.setattr(forks, "IMPORTED", ("highway",))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    handler = signal.getsignal(signal.SIGCHLD)
    with ours, theirs, open(os.devnull, "ab") as log:
        socket.send_fds(ours, [json.dumps(["start", 0, ["highway", "train"], "a run"]).encode()], [log.fileno()])
        ours.shutdown(socket.SHUT_WR)
        try:
            assert not forks.serve(theirs)
        finally:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, handler)
        assert json.loads(ours.recv(1000)) == ["refused", 0, None]


def test_a_thread_is_seen() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        assert not forks._alone()
    finally:
        end.set()
        thread.join()


def test_a_refused_run_starts_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after the server has died; but not if it was stopped meanwhile."""

    class Fresh:
        poll: Any = staticmethod(lambda: 7)

    server = ForkServer.__new__(ForkServer)
    server.connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    refused, stopped, unheard = (forks.Forked(server, Fresh) for _ in range(3))  # type: ignore[arg-type]
    server.runs = {0: refused, 1: stopped, 2: unheard}
    stopped.stop()
    for number in (0, 1):
        theirs.send(json.dumps(["refused", number, None]).encode())
    assert (refused.poll(), stopped.poll(), unheard.poll()) == (7, -signal.SIGTERM, None)
    theirs.close()
    assert unheard.poll() == 7
    server.connection.close()
