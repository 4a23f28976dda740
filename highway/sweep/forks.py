"""A server that imports torch and Lightning once, and forks the runs of a local sweep, which need not import them.

A forked run goes on as `python -m highway train` does after its imports. It has the environment of such a process, its
number of threads, its signals, a session of its own, and the log as its output; its weights are equal bit for bit. The
server forks nothing if a thread runs in it, which a fork would lose, or if code has changed since it was imported. It
then says so, and the launcher starts a process afresh. A GPU is never touched before a fork: runs on a GPU, on several
devices and timings are started afresh (highway/sweep/local.py). The server ends with its sweep, and its runs then save
and stop, as the runs of any sweep do.
"""

import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from highway.config.home import CODE
from highway.files.kept import signature
from highway.files.system import born
from highway.ledger.lease import SWEEP
from highway.sweep.engine import LOOK, Job

# named as texts, since this room imports no training code
IMPORTED = ("highway.commands.train", "highway.train")
THREADS = Path("/proc/self/task")
LOST = 1  # the exit code of a run whose server was killed: it saves and stops
LONGEST = 100_000  # bytes of a message; a run with a longer command line is started afresh


class Forked:
    """A `Job`: a run that the server forks, or that `afresh` starts if the server refuses it."""

    def __init__(self, server: "ForkServer", afresh: Callable[[], Job]) -> None:
        self.server, self.afresh = server, afresh
        self.pid: int | None = None
        self.code: int | None = None
        self.job: Job | None = None
        self.stopped = False

    def poll(self) -> int | None:
        self.server.listen()
        return self.job.poll() if self.job else self.code

    def stop(self) -> None:
        self.stopped = True
        if self.job:
            self.job.stop()
        else:
            self.server.stop(self)

    def start_afresh(self) -> None:
        if self.stopped:
            self.code = -signal.SIGTERM
        else:
            self.job = self.afresh()

    def wait(self) -> None:
        while self.poll() is None:
            time.sleep(LOOK)


class ForkServer:
    """The launcher's end. A message is a list: a word, the number of a run, and what the word needs."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.runs: dict[int, Forked] = {}
        self.connection, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self.process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(other.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                pass_fds=[other.fileno()],
                start_new_session=True,
            )

    def start(self, arguments: list[str], log: int, name: str, afresh: Callable[[], Job]) -> Job:
        """Fork a run with this sys.argv, whose output goes to the open file `log`; `name` is what ps shows."""
        number, run = len(self.runs), Forked(self, afresh)
        message = json.dumps(["start", number, arguments, name]).encode()
        try:
            if len(message) > LONGEST:
                return afresh()
            socket.send_fds(self.connection, [message], [log])
        except OSError:  # the server is gone
            return afresh()
        self.runs[number] = run
        return run

    def stop(self, run: Forked) -> None:
        number = next(number for number, other in self.runs.items() if other is run)
        with suppress(OSError):  # without its server, a run saves and stops by itself
            self.connection.send(json.dumps(["stop", number]).encode())

    def listen(self) -> None:
        """Read the server's messages about its runs, without waiting for any."""
        while select.select([self.connection], [], [], 0)[0]:
            try:
                message = self.connection.recv(LONGEST)
            except OSError:
                message = b""
            if not message:
                return self._without_server()
            word, number, value = json.loads(message)
            run = self.runs[number]
            if word == "started":
                run.pid = value
            elif word == "ended":
                run.code = value
            else:
                run.start_afresh()

    def _without_server(self) -> None:
        for run in self.runs.values():
            if run.job or run.code is not None:
                continue
            if run.pid is None:
                run.start_afresh()
            elif born(run.pid) is None:
                run.code = LOST

    def close(self) -> None:
        """End the server, whose runs have ended."""
        self.connection.close()
        self.process.kill()
        self.process.wait()


def serve(connection: socket.socket) -> bool:
    """Fork the runs that the sweep asks for, until it is gone. Return True in a forked run, else False."""
    numbers: dict[int, int] = {}  # of the runs that go on, by process
    code = _code()
    for module in IMPORTED:
        import_module(module)
    os.environ[SWEEP] = str(os.getpid())
    woken, wakes = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([connection.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _tell_ended(connection, numbers)
        if connection.fileno() not in ready:
            continue
        message, logs, _, _ = socket.recv_fds(connection, LONGEST, 1)
        if not message:
            return False
        word, number, *about = json.loads(message)
        if word == "stop":
            for pid in (pid for pid, run in numbers.items() if run == number):
                os.kill(pid, signal.SIGTERM)
        elif _code() != code or not _alone():
            connection.send(json.dumps(["refused", number, None]).encode())
            os.close(logs[0])
        elif pid := os.fork():
            numbers[pid] = number
            connection.send(json.dumps(["started", number, pid]).encode())
            os.close(logs[0])
        else:
            signal.set_wakeup_fd(-1)
            for descriptor in (woken, wakes):
                os.close(descriptor)
            connection.close()
            arguments, name = about
            _become(arguments, name, logs[0])
            return True


def _tell_ended(connection: socket.socket, numbers: dict[int, int]) -> None:
    for pid in list(numbers):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            number = numbers.pop(pid)
            connection.send(json.dumps(["ended", number, os.waitstatus_to_exitcode(status)]).encode())


def _become(arguments: list[str], name: str, log: int) -> None:
    """Make a forked process what a new one would be after its imports."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    with suppress(OSError):
        Path("/proc/self/comm").write_text(name[:15])  # what ps and top show
    sys.argv = arguments


def _alone() -> bool:
    """Return True if no thread runs here. OpenBLAS, in numpy, ends its own at a fork and starts them when needed."""
    if not THREADS.exists():
        return False
    if pid := os.fork():
        os.waitpid(pid, 0)
    else:
        os._exit(0)
    return len(os.listdir(THREADS)) == 1


def _code() -> object:
    """Return what changes if our code or an installed package does."""
    paths: list[str | Path] = [*CODE.rglob("*.py"), *(folder for folder in sys.path if folder.endswith("-packages"))]
    return {str(path): signature(path) for path in paths}


if __name__ == "__main__" and serve(socket.socket(fileno=int(sys.argv[1]))):
    runpy.run_module("highway", run_name="__main__", alter_sys=True)
