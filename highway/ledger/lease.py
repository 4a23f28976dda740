"""Leases: one process at a time holds the lease of a run, writes its progress into it, and loses it when it dies.

    outputs/cells/<model>-<hash12>/seed<k>/leases/<number>.json
    with the fields run, host, machine, pid, started, ended, progress

The lease with the highest number counts. A process takes a run by creating the next number with O_EXCL. Only one
process can succeed, on any file system, so a run whose holder died is taken over without a race and without locks.
Leases stay, so that a process which slept after it had read the folder finds its number taken.

On its own machine a lease is alive while its process exists: a stopped process counts, a zombie does not. On another
machine, or if the process id now belongs to another process, it is alive if its file was written within STALE seconds
of now, by the clock of the file system. The holder rewrites the file every BEAT seconds. A half-written file counts by
its time alone. A lease of another run is dead: someone has copied the directory.

A process that slept and finds a higher number ends at its next beat. A run that a sweep started saves and stops when
that sweep is gone, so `kill -9` of a sweep leaves no process behind.
"""

import json
import math
import os
import re
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from highway.errors import Held, Unwritable
from highway.ledger.files import made_folder, write_json, writing
from highway.machine import process_start, this_machine

BEAT = 2.0  # seconds between two writes of a held lease
STALE = 60.0  # seconds without a write after which another machine takes over
FILE = re.compile(r"[0-9]+\.json")
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
        if self.content.get("machine") == this_machine():
            start = process_start(self.content["pid"])
            if start is None:
                return False
            if abs(start - self.content.get("started", math.nan)) < 1:  # seconds: the same process
                return True
        return abs(_age(self.path)) < STALE

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
        return dict(self.content.get("progress", {}))


class HeldLease:
    """The lease of this process, kept alive by a thread."""

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        self.path = path
        self.progress: dict[str, Any] = {}  # shown to other processes; the run replaces it as it advances
        self._content = content
        self._sweep = int(os.environ.get(SWEEP, "0"))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        self._thread.join()
        self._content["ended"] = True
        self._write()

    def _beat(self) -> None:
        while not self._stop.wait(BEAT):
            with suppress(OSError):  # a network file system may fail for a moment
                if _numbers(self.path.parent)[-1:] != [int(self.path.stem)]:
                    print(f"{self.path} was taken over while this process slept. This process stops.", file=sys.stderr)
                    os._exit(1)  # the run belongs to another process
            if self._sweep and os.getppid() != self._sweep:
                self._sweep = 0
                os.kill(os.getpid(), signal.SIGTERM)
            self._write()

    def _write(self) -> None:
        with suppress(Unwritable):  # on a full disk the time of the file tells that this process is gone
            write_json(self.path, {**self._content, "progress": self.progress}, durable=False)


@contextmanager
def leased(folder: Path, run: str | None = None) -> Iterator[HeldLease]:
    """Hold the lease, of a run if one is named, while the block runs. Raise `Held` if another process holds it."""
    content: dict[str, Any] = {
        "run": run,
        "host": socket.gethostname(),
        "machine": this_machine(),
        "pid": os.getpid(),
        "started": process_start(os.getpid()),
        "ended": False,
        "progress": {},
    }
    held = HeldLease(_taken(made_folder(folder), content), content)
    try:
        yield held
    finally:
        held.end()


def _taken(folder: Path, content: dict[str, Any]) -> Path:
    """Create the lease with the next number, and return its path."""
    before = Lease.latest(folder, content["run"])
    if before is not None and before.alive:
        raise Held(f"{folder.parent} is being run by {before.holder}. Wait for it, or stop it.")
    number = int(before.path.stem) + 1 if before else 1
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
    return path


def _numbers(folder: Path) -> list[int]:
    names = os.listdir(folder) if folder.is_dir() else []  # five times as fast as a glob; sweeps read thousands
    return sorted(int(name.removesuffix(".json")) for name in names if FILE.fullmatch(name))


def _age(path: Path) -> float:
    """Return the seconds since the file was written, by the clock of the file system: clocks of machines differ."""
    now = time.time()
    with suppress(OSError), tempfile.NamedTemporaryFile(dir=path.parent, prefix=".now.") as probe:
        now = os.fstat(probe.fileno()).st_mtime  # in a read-only folder, this machine's clock has to do
    try:
        return now - path.stat().st_mtime
    except OSError:  # replaced or followed at this moment, so its holder is alive
        return 0.0
