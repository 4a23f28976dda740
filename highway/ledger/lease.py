"""Leases: one process at a time holds the lease of a run, writes its progress into it, and loses it when it dies.

    outputs/cells/<model>-<hash12>/seed<k>/leases/<number>.json   run, host, machine, pid, born, since, ended, progress

The lease with the highest number counts. A process takes a run by creating the next number with O_EXCL. Only one
process can succeed, on any file system, so a run whose holder died is taken over without a race and without locks.

A lease is alive on its own machine while its process exists (a zombie does not count). On other machines, and on
systems that do not identify processes (highway/files/system.py), the time of its file decides: it must lie within STALE
seconds of now, by the clock of the file system. The holder rewrites the file every BEAT seconds. A lease of another run
is dead: someone has copied the directory. A half-written file counts by its time alone. A process that slept and finds
a higher number ends without writing. A run that a sweep started saves and stops when that sweep is gone, so `kill -9`
of a sweep leaves no process behind.
"""

import json
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from highway.errors import Held, Refused
from highway.files.system import UNKNOWN, born, machine_identity
from highway.files.writing import made_folder, write_json, writing

BEAT = 2.0  # seconds between two writes of a held lease
STALE = 60.0  # seconds without a write after which another machine takes over
FILE = re.compile(r"[1-9][0-9]{0,17}\.json")
SWEEP = "HIGHWAY_SWEEP"  # holds the process id of the sweep; its runs save and stop when that process is gone


class Lease:
    """A lease, as it was when read. `run`: the name of the run in whose directory it lies; None for other leases."""

    def __init__(self, path: Path, run: str | None = None) -> None:
        self.path = path
        try:
            self.content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # being created at this moment, or replaced
            self.content = {}
        self.foreign = self.content.get("run", run) != run

    @classmethod
    def latest(cls, folder: Path, run: str | None = None) -> "Lease | None":
        """Return the lease that counts; None if the run was never started."""
        numbers = _numbers(folder)
        return cls(folder / f"{numbers[-1]}.json", run) if numbers else None

    @property
    def ended(self) -> bool:
        """True if its holder ended by itself, with or without an error; False if it runs or was killed."""
        return bool(self.content.get("ended"))

    @property
    def alive(self) -> bool:
        """True if its holder still runs."""
        if self.ended or self.foreign:
            return False
        if this_machine() != UNKNOWN and self.content.get("machine") == this_machine():
            start = born(self.content["pid"])
            if start is None or UNKNOWN not in (start, self.content["born"]):
                return bool(start == self.content["born"])
        return self.path.exists() and abs(_age(self.path)) < STALE

    @property
    def holder(self) -> str:
        if not self.content:
            return f"a process that has not yet written its name; {self.path} counts for {STALE:g} seconds"
        return f"process {self.content['pid']} on {self.content['host']}"

    @property
    def progress(self) -> dict[str, Any]:
        """The run's step, steps, seconds and tokens_per_second; and if known seconds_left, train_loss and valid_loss.

        Empty before the first step.
        """
        progress: dict[str, Any] = self.content.get("progress", {})
        return progress


class HeldLease:
    """The lease of this process, kept alive by a thread."""

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        self.path = path
        self.progress: dict[str, Any] = {}  # shown to other processes; the run replaces it as it advances
        self._content = {**content, "since": round(time.time(), 1)}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._parent = int(os.environ.get(SWEEP, "0"))

    def start(self) -> None:
        self._write()
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        self._thread.join()
        self._content["ended"] = True
        with suppress(Refused, OSError):  # on a full disk the end of this process shows the same
            self._write()

    def _write(self) -> None:
        write_json(self.path, {**self._content, "progress": self.progress}, durable=False)

    def _beat(self) -> None:
        while not self._stop.wait(BEAT):
            if _numbers(self.path.parent)[-1:] != [_number(self.path)]:
                print(
                    f"{self.path} was taken over while this process slept. This process stops.",
                    file=sys.stderr,
                )
                os._exit(1)  # the run belongs to another process: write not a single byte
            if self._parent and os.getppid() != self._parent:
                self._parent = 0
                os.kill(os.getpid(), signal.SIGTERM)
            with suppress(Refused, OSError):
                self._write()


@contextmanager
def leased(folder: Path, run: str | None = None) -> Iterator[HeldLease]:
    """Hold the lease, of a run if one is named, while the block runs. Raise `Held` if another process holds it."""
    content = {**_myself(), **({"run": run} if run else {}), "ended": False}
    held = HeldLease(_taken(made_folder(folder), content, run), content)
    held.start()
    try:
        yield held
    finally:
        held.end()


def _taken(folder: Path, content: dict[str, Any], run: str | None) -> Path:
    before = Lease.latest(folder, run)
    if before is not None and before.alive:
        raise Held(f"{folder.parent} is being run by {before.holder}. Wait for it, or stop it.")
    number = _number(before.path) + 1 if before else 1
    path = folder / f"{number}.json"
    with writing(path):
        try:
            with open(path, "x") as file:
                json.dump(content, file)
        except FileExistsError as error:
            raise Held(f"{folder.parent} was taken by another process at this moment. Wait for it.") from error
        except OSError:  # half a lease would look alive for a minute
            path.unlink(missing_ok=True)
            raise
    for other in _numbers(folder):
        if other > number:  # a slow process that read the folder long ago
            path.unlink()
            raise Held(f"{folder.parent} was taken by another process at this moment. Wait for it.")
        if other < number:
            (folder / f"{other}.json").unlink(missing_ok=True)  # another process may delete it, too
    return path


def _numbers(folder: Path) -> list[int]:
    try:
        names = os.listdir(folder)  # five times as fast as a glob; sweeps read thousands
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(name.removesuffix(".json")) for name in names if FILE.fullmatch(name))


def _number(path: Path) -> int:
    return int(path.stem)


def _myself() -> dict[str, Any]:
    pid = os.getpid()
    return {"host": socket.gethostname(), "machine": this_machine(), "pid": pid, "born": born(pid)}


@cache
def this_machine() -> str:
    """Return the identity of this machine, computed once."""
    return machine_identity()


def _age(path: Path) -> float:
    """Return the seconds since the file was written, by the clock of the file system: clocks of machines differ."""
    probe = path.parent / f".now-{socket.gethostname()}-{os.getpid()}"
    try:
        probe.touch()
        now = probe.stat().st_mtime
        probe.unlink()
    except OSError:  # the folder is read-only
        now = time.time()
    try:
        return now - path.stat().st_mtime
    except OSError:  # replaced at this moment, so its holder is alive
        return 0.0
