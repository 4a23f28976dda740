"""The base of every launcher that starts each run as a process: builds the commands, and watches them until they end.

A subclass reserves room (`take`, `give_back`) and starts commands (`start`). Local processes, Slurm jobs and Ray tasks
all implement `Job`. A run that another sweep has started is left to that sweep, and taken over if that sweep dies.
"""

import logging
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from highway.config.compose import experiment
from highway.config.experiment import Experiment
from highway.config.keys import Written
from highway.config.mistakes import validated
from highway.errors import Held, Refused, counted
from highway.ledger.directory import DONE, RunDirectory
from highway.sweep.typed import command_line, quoted

log = logging.getLogger("highway")
EXIT_REFUSED = 2  # the exit code of a run that was refused, for example because another process trains it
LOOK_AGAIN = 1.0  # seconds between two checks of runs that other sweeps have started
LOOK = 0.02  # seconds between two polls of the running jobs; a slot stays empty at most that long


@dataclass(frozen=True)
class Planned:
    """A run of a sweep: its overrides, its directory, and the devices that it needs."""

    label: str
    overrides: tuple[str, ...]
    directory: RunDirectory
    accelerator: str
    devices: int
    before: str = "waiting"  # status when the sweep began; a run that had failed is planned only with retry_failed=true
    nodes: int = 1  # machines, each with `devices` devices
    experiment: Experiment | None = field(default=None, compare=False)  # None: not composed

    def next_move(self) -> Literal["start", "wait", "leave"]:
        """Decide what to do now. wait: another process is training it. leave: another sweep has ended it meanwhile."""
        status = self.directory.status
        if status == "running":
            return "wait"
        return "leave" if status in DONE or (status == "failed" and self.before != "failed") else "start"


class RunLauncher(Launcher):
    """The base of our launchers: Hydra passes overrides to a launcher, our sweeper passes planned runs."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        raise NotImplementedError("highway's launchers work with hydra/sweeper=highway")

    def threads_of_a_run(self, missing: Sequence[Planned], planned: int) -> int | None:
        """Return the threads of a run that does not set trainer.threads, or None for every core of its machine."""
        return None

    def launch_runs(self, to_run: Sequence[Planned], planned: int, fail_fast: bool) -> None:
        """Run these, of `planned` in the sweep, until all have ended here or in other sweeps.

        With fail_fast, return when the first run fails.
        """
        raise NotImplementedError


class Job(Protocol):
    def poll(self) -> int | None:
        """Return the exit code, or None while the job waits, runs, or is about to run again."""

    def stop(self) -> None:
        """Ask the job to save a checkpoint and exit; the job may still be queued."""

    def wait(self) -> Any:
        """Block until the job has ended."""


class EngineLauncher(RunLauncher):
    Settings: type[Written] = Written  # the keys of hydra.launcher, which a file of conf/hydra/launcher/ explains
    threads: int  # threads of a run whose overrides do not set trainer.threads
    spans_nodes = False  # True if a run may use several machines
    queues = False  # True if a run may wait in a queue after it has been started

    def __init__(self, **given: Any) -> None:
        self.settings: Any = validated(self.Settings, given, "hydra.launcher")

    def threads_of_a_run(self, missing: Sequence[Planned], planned: int) -> int | None:
        return self.threads

    def prepare(self, to_run: Sequence[Planned], planned: int) -> int:
        """Get ready for these runs, out of `planned` in the sweep; return how many can run at once."""
        raise NotImplementedError

    def start(self, to_run: Sequence[Planned]) -> Iterable[tuple[Planned, Job]]:
        """Start these runs, for which `take` has reserved room; yield each with its job."""
        raise NotImplementedError

    def take(self, planned: Planned) -> bool:
        """Reserve room for a run and return True, or False if none is free; Slurm and Ray queue the run themselves."""
        return True

    def give_back(self, planned: Planned) -> None:
        """Release the room that a run has taken."""

    def launch_runs(self, to_run: Sequence[Planned], planned: int, fail_fast: bool) -> None:
        from highway.sweep.overview import Overview  # imports rich: Hydra loads this file for single runs too

        wide = next((run for run in to_run if run.nodes > 1), None)
        if wide and not self.spans_nodes:
            raise Refused(
                f"trainer.nodes={wide.nodes} needs hydra/launcher=slurm: only Slurm starts a run on several machines."
            )
        at_once = self.prepare(to_run, planned)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # an ignored SIGHUP comes from nohup and stays ignored; a shell's & ignores SIGINT without meaning it
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.default_int_handler)
        self.waiting = list(to_run)
        self.running: dict[Planned, Job] = {}
        with Overview(to_run, at_once, self.queues) as self.overview:
            try:
                self._work(fail_fast)
            finally:
                self._stop()

    def command(self, planned: Planned) -> list[str]:
        """Return the command that trains a run, the same for every launcher."""
        overrides = [*search_path(self.config), *map(str, planned.overrides)]
        if not any(override.startswith("trainer.threads=") for override in overrides):
            overrides.append(f"trainer.threads={self.threads}")
        for key in ("data_dir", "outputs_dir"):
            overrides.append(f"{key}={quoted(str(Path(self.config[key]).resolve()))}")
        return [sys.executable, "-m", "highway", "train", *overrides]

    def _work(self, fail_fast: bool) -> None:
        look_at = 0.0
        while self.waiting or self.running:
            codes = {planned: job.poll() for planned, job in self.running.items()}
            ended = {planned: code for planned, code in codes.items() if code is not None}
            failed = [planned for planned, code in ended.items() if not self._ended(planned, code)]
            if failed and fail_fast:
                return
            if ended or time.monotonic() >= look_at:
                self._fill()
                look_at = time.monotonic() + LOOK_AGAIN
            self.overview.update(self.waiting, list(self.running))
            time.sleep(LOOK)

    def _ended(self, planned: Planned, code: int) -> bool:
        """Release the room of a job that has ended; return False if its run failed."""
        del self.running[planned]
        self.give_back(planned)
        move = planned.next_move()
        if move == "wait" or (code == EXIT_REFUSED and move == "leave"):  # another sweep took the lease first
            self.waiting.append(planned)
            return True
        self.overview.ended(planned, code)
        return code == 0

    def _fill(self) -> None:
        """Start every run for which there is room; skip runs of other sweeps, and drop those that have ended there."""
        ready = []
        for planned in list(self.waiting):
            if not self.take(planned):
                break
            move = planned.next_move()
            if move == "start":
                ready.append(planned)
            else:
                self.give_back(planned)
            if move == "leave":
                self.overview.ended(planned, None)
            if move != "wait":
                self.waiting.remove(planned)
        for planned, job in self.start(ready):
            self.running[planned] = job
            self.overview.started(planned)

    def _stop(self) -> None:
        """Stop every job: a run saves a checkpoint first, unless it has not begun to train."""
        if self.running:
            self.overview.say(f"stopping {counted(len(self.running), 'run')}; progress is saved first ...")
        for job in self.running.values():
            job.stop()
        for job in self.running.values():
            job.wait()


class InlineLauncher(RunLauncher):
    """A launcher that trains one run after another in this process."""

    run: Callable[[Experiment, RunDirectory, str], str]  # trains a run and returns its status

    def launch_runs(self, to_run: Sequence[Planned], planned: int, fail_fast: bool) -> None:
        waiting = list(to_run)
        while waiting:
            moves = {entry: entry.next_move() for entry in waiting}
            waiting = [entry for entry in waiting if moves[entry] != "leave"]
            ready = [entry for entry in waiting if moves[entry] == "start"]
            if not ready:
                time.sleep(LOOK_AGAIN)
                continue
            waiting.remove(ready[0])
            overrides = [*search_path(self.config), *ready[0].overrides]
            try:
                status = self.run(experiment(overrides), ready[0].directory, command_line(overrides))
            except Held:  # another sweep has taken the lease since next_move
                waiting.append(ready[0])
                continue
            if status == "interrupted":
                raise KeyboardInterrupt
            if fail_fast and status != "finished":
                return


def search_path(config: DictConfig) -> list[str]:
    """Return the override that repeats a command's -cd and hydra.searchpath elsewhere; an empty list without them."""
    sources = [
        f"file://{Path(source.path).resolve()}" if source.schema == "file" else f"{source.schema}://{source.path}"
        for source in config.hydra.runtime.config_sources
        if source.provider.startswith("hydra.searchpath")
    ]
    return [f"hydra.searchpath=[{','.join(map(quoted, sources))}]"] if sources else []


def last_line(path: Path) -> str:
    """Return the last line of a log, with its path."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except FileNotFoundError:
        lines = []
    return f"{lines[-1]} ({path})" if lines else str(path)
