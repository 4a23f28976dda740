"""Sweeps under faults against an undisturbed one, in real processes through the real command line.

Each fault has its own outputs. The same command is given again until it ends well. Then every record must be what it
would have been without the fault: nothing is lost, no run ends twice, the weights are the same, and no corrupt file is
used.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from highway.ledger.directory import RunDirectory
from highway.ledger.lease import Lease
from highway.testing.runs import curve, numbers, same_weights
from tests.support.commands import ROOT, TRAIN
from tests.support.overrides import TINY

SWEEP = (  # four runs of some seconds each, which save all the time
    *TINY,
    "gate=none,sdu_tanh",
    "seed=1,2",
    "dataset.train.lanes=16",
    "trainer.max_steps=240",
    "trainer.validate_every=40",
    "trainer.checkpoint_seconds=0.2",
    "model.dropout=0.2",
)
RUNS = 4
# Each process applies this from its first line on: Python imports a module of this name when it starts.
SURROUNDINGS = """
import fcntl, os, resource, sys, time
fault = os.environ.get("FAULT", "")
if fault == "clock":  # an hour back, every second
    real, began = time.time, time.monotonic()
    time.time = lambda: real() - 3600 * int(time.monotonic() - began)
def refused(*_, **__):
    raise OSError(95, "Operation not supported")
if fault == "links":
    os.link = fcntl.flock = fcntl.lockf = refused
if fault.startswith("room"):  # no file may be larger: a disk that fills up while one is being written
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(fault[4:]), resource.RLIM_INFINITY))
"""


@dataclass
class Outcome:
    injected: int = 0
    lost: int = 0  # results that vanished or never came
    repeated: int = 0  # runs that ended once more than necessary
    different: int = 0  # runs whose weights, curves or metrics differ from the undisturbed ones
    used: int = 0  # corrupt files that no message names
    said: list[str] = field(default_factory=list)  # descriptions of everything that went wrong

    @property
    def clean(self) -> bool:
        return not (self.wrong or self.said)

    @property
    def wrong(self) -> int:
        return self.lost + self.repeated + self.different + self.used


class Folder:
    """The outputs of one fault."""

    def __init__(self, path: Path, whole: "Folder | None" = None) -> None:
        self.path, self.outcome, self.whole = path, Outcome(), whole
        self.again = 0  # runs that have to be repeated because a result is corrupt
        self.corrupt: list[str] = []  # names of corrupt files
        self.stderr = ""

    def start(self, *overrides: str, fault: str = "") -> "subprocess.Popen[str]":
        self.path.parent.mkdir(parents=True, exist_ok=True)
        hooks = self.path.with_name("hooks")
        hooks.mkdir(exist_ok=True)
        (hooks / "sitecustomize.py").write_text(SURROUNDINGS)
        around = {"PYTHONPATH": f"{hooks}:{ROOT}", "FAULT": fault, "HIGHWAY_OUTPUTS": str(self.path)}
        return subprocess.Popen(
            [sys.executable, str(TRAIN), "-m", *SWEEP, *(overrides or ("hydra.launcher.slots=2",))],
            env={**os.environ, **around},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def ended(self, sweep: "subprocess.Popen[str]") -> int:
        """Wait for the sweep, keep its messages, and return its exit code."""
        self.stderr += sweep.communicate(timeout=600)[1]
        return sweep.returncode

    def finish(self, *overrides: str) -> None:
        """Repeat the same command until it ends well."""
        for _ in range(3):
            if self.ended(self.start(*overrides)) == 0:
                return
        self.outcome.said.append(f"did not end well: {self.stderr[-300:]}")

    @property
    def directories(self) -> list[RunDirectory]:
        return [RunDirectory(path) for path in sorted(self.path.glob("cells/*/seed*"))]

    def processes(self) -> Iterator[int]:
        """Yield the process ids of the runs that are under way."""
        for directory in self.directories:
            lease = Lease.latest(directory.leases, directory.id)
            if lease is not None and lease.alive and "pid" in lease.content:
                yield lease.content["pid"]

    @property
    def is_through(self) -> bool:
        return len(self.directories) == RUNS and all(directory.status == "finished" for directory in self.directories)

    def begin_again(self) -> None:
        """Compare the runs, which are all finished, and delete them, so that the fault can go on with new ones."""
        self.compare()
        shutil.rmtree(self.path / "cells")

    def compare(self) -> Outcome:
        """Compare the outputs with those of the undisturbed sweep."""
        assert self.whole is not None
        directory_of, outcome = (
            {directory.name + directory.path.name: directory for directory in self.directories},
            self.outcome,
        )
        ends = 0
        for directory in self.whole.directories:
            ours = directory_of.get(directory.name + directory.path.name)
            if ours is None or ours.status != "finished":
                outcome.lost += 1
                continue
            ends += ours.log.read_text().count(f"{ours.path}: finished")
            same = all(same_weights(*pair) for pair in ((directory.last, ours.last), (directory.best, ours.best)))
            results = [numbers(ended.result() or {"metrics": {}}) for ended in (directory, ours)]
            outcome.different += not (same and curve(directory) == curve(ours) and results[0] == results[1])
        outcome.repeated += max(ends - RUNS - self.again, 0)
        return outcome


def wait_until(condition: Callable[[], object], sweep: "subprocess.Popen[str]", seconds: float = 120) -> None:
    """Wait until the condition holds or the sweep ends."""
    deadline = time.monotonic() + seconds
    while not condition() and sweep.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for position in random.Random(5).sample(range(len(content)), min(100, len(content))):
        content[position] ^= 0x55
    path.write_bytes(content)


# The faults


def kills(folder: Folder, count: int, whom: str) -> None:
    """kill -9 a run, the sweep or both, at random moments. The sweep of a killed run goes on with the others."""
    moments = random.Random(count)
    while folder.outcome.injected < count:
        sweep = folder.start()
        while sweep.poll() is None and folder.outcome.injected < count:
            time.sleep(moments.random() * 5)
            running = list(folder.processes())
            victims = {"run": running[:1], "sweep": [sweep.pid], "both": [sweep.pid, *running]}[whom]
            if sweep.poll() is None and victims:
                for pid in victims:
                    kill(pid)
                folder.outcome.injected += 1
            if whom != "run":
                break
        folder.ended(sweep)
        if folder.is_through:
            folder.begin_again()
    folder.finish()


def signals(folder: Folder) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # needed where the tests themselves run under nohup
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        if folder.is_through:
            folder.begin_again()
        sweep = folder.start()
        if folder.outcome.injected:
            wait_until(lambda: any(folder.processes()), sweep)
        else:
            time.sleep(0.5)  # hit the sweep in its first second
        kill(sweep.pid, number)
        folder.outcome.injected += 1
        if folder.ended(sweep) == 0:
            folder.outcome.said.append(f"{number.name} went by")
        if list(folder.processes()):
            folder.outcome.said.append(f"runs outlived {number.name}")
    folder.finish()


def stopped_underway(folder: Folder) -> RunDirectory | None:
    """Return a run stopped in mid-training, with all its files, after this start has read the earlier ones."""

    def begun() -> list[RunDirectory]:
        running = [
            directory for directory in folder.directories if directory.status == "running" and directory.progress
        ]
        return [directory for directory in running if len(directory.checkpoints) > 1 and directory.best.exists()]

    sweep = folder.start()
    wait_until(begun, sweep)
    begun_runs = begun()
    kill(sweep.pid, signal.SIGTERM)
    folder.ended(sweep)
    return next((directory for directory in begun_runs if directory.status != "finished"), None)


def full_disk(folder: Folder) -> None:
    """Leave no room for a checkpoint, then none for settings or a curve. With room, the same command goes on."""
    stopped_underway(folder)
    for room in (20_000, 600):
        folder.outcome.injected += 1
        before = len(folder.stderr)
        code, messages = folder.ended(folder.start(fault=f"room{room}")), folder.stderr[before:]
        if code == 0 or "could not be written" not in messages or "Traceback" in messages:
            folder.outcome.said.append(f"with files of {room} bytes: exit {code}, {messages[-200:]}")
        if any(directory.status in ("failed", "diverged") for directory in folder.directories):
            folder.outcome.said.append("a full disk became a result")
    folder.finish()


def no_folder(folder: Folder) -> None:
    """Use outputs that cannot be written to, and outputs where a file is in the way."""
    in_the_way = folder.path.with_name("file")
    in_the_way.parent.mkdir(parents=True, exist_ok=True)
    in_the_way.touch()
    for outputs in (Path("/proc/outputs"), in_the_way):
        other = Folder(folder.path)
        sweep = other.start(f"outputs_dir={outputs}")
        code, folder.outcome.injected = other.ended(sweep), folder.outcome.injected + 1
        if code != 2 or len(other.stderr.strip().splitlines()) != 1:
            folder.outcome.said.append(f"{outputs}: exit {code}, {other.stderr[-300:]}")
    folder.finish()


def flipped_underway(folder: Folder) -> None:
    """Stop everything in the middle and corrupt files of a run that was under way; then again with other files."""
    kinds: list[Callable[[RunDirectory], list[Path]]] = [
        lambda directory: [*directory.checkpoints[:1], *folder.path.glob("cache/*/train.npy")],
        lambda directory: [directory.best],
        lambda directory: [directory.curves],
        lambda directory: directory.checkpoints,
    ]
    for files in kinds:
        begun = stopped_underway(folder)
        if begun is None:
            folder.outcome.said.append("nothing was underway that could be corrupted")
            break
        for path in files(begun):
            _damage(folder, path)
    folder.finish()
    messages = folder.stderr + "".join(directory.log.read_text() for directory in folder.directories)
    silent = [name for name in folder.corrupt if name not in messages]
    folder.outcome.used = len(silent)
    folder.outcome.said += [f"not a word about {name}" for name in silent]


def flipped_results(folder: Folder) -> None:
    """Corrupt every file of finished runs that a report reads."""
    folder.finish()
    for name in ("result.json", "curves.csv", "config.yaml", "probes/gate_biases.npz"):
        directory = next(directory for directory in folder.directories if (directory.path / name).exists())
        _damage(folder, directory.path / name)
        folder.outcome.used += directory.status == "finished"
        folder.again += 1
        folder.finish()


def _damage(folder: Folder, path: Path) -> None:
    flip(path)
    folder.corrupt.append(path.name)
    folder.outcome.injected += 1


def several_sweeps(folder: Folder) -> None:
    """Start three sweeps on one folder, one of them in its own process, and kill the first."""
    sweeps = [folder.start(), folder.start(), folder.start("hydra/launcher=inline")]
    time.sleep(8)
    kill(sweeps[0].pid)
    folder.outcome.injected += 3
    codes = [folder.ended(sweep) for sweep in sweeps]
    if codes[1:] != [0, 0]:
        folder.outcome.said.append(f"exits {codes}: {folder.stderr[-300:]}")
    folder.finish()


def surroundings(folder: Folder) -> None:
    """Run with a clock that goes backwards, and on a file system without hard links and locks."""
    for fault, seconds in (("clock", 8), ("links", 8)):
        sweep = folder.start(fault=fault)
        with suppress(subprocess.TimeoutExpired):
            sweep.wait(timeout=seconds)
        for pid in (sweep.pid, *folder.processes()):
            kill(pid)
        folder.outcome.injected += 1
        folder.ended(sweep)
        if folder.ended(folder.start(fault=fault)) != 0:
            folder.outcome.said.append(f"{fault}: {folder.stderr[-300:]}")
        if fault == "clock":
            folder.begin_again()
    folder.finish()


def out_of_memory(folder: Folder) -> None:
    """Let one run beside the four exceed memory. It fails with a message on what to change, and harms no other run."""
    other = Folder(folder.path)
    code = other.ended(other.start("model.width=16,8000000", "seed=1", "gate=none"))
    folder.outcome.injected += 1
    if code != 1 or "out of memory" not in other.stderr or "Traceback" in other.stderr:
        folder.outcome.said.append(f"exit {code}: {other.stderr[-300:]}")
    for directory in folder.directories:
        if directory.status == "failed":
            shutil.rmtree(directory.path)
    folder.finish()


FAULTS: dict[str, tuple[Callable[..., None], str]] = {
    "kill -9 of a run": (kills, "run"),
    "kill -9 of the sweep": (kills, "sweep"),
    "kill -9 of both": (kills, "both"),
    "SIGINT, SIGTERM, SIGHUP": (signals, ""),
    "a full disk": (full_disk, ""),
    "no folder to write to": (no_folder, ""),
    "flipped bytes underway": (flipped_underway, ""),
    "flipped bytes in results": (flipped_results, ""),
    "three sweeps on one folder": (several_sweeps, ""),
    "clock backwards, no links, no locks": (surroundings, ""),
    "out of memory in one run": (out_of_memory, ""),
}


def undisturbed(where: Path) -> Folder:
    whole = Folder(where / "undisturbed" / "outputs")
    whole.finish()
    return whole


def outcome(name: str, where: Path, whole: Folder, kills_of_each: int) -> Outcome:
    """Inject the fault and return its outcome."""
    inject, whom = FAULTS[name]
    folder = Folder(where / name.replace(" ", "_") / "outputs", whole)
    inject(folder, *((kills_of_each, whom) if whom else ()))
    return folder.compare()


def tried(where: Path, kills_of_each: int, only: str = "") -> Iterator[tuple[str, Outcome]]:
    """Inject every fault whose name has this word, and yield what came of it."""
    whole = undisturbed(where)
    for name in FAULTS:
        if only in name:
            yield name, outcome(name, where, whole, kills_of_each)
