"""The core of every launcher: take a slot for each missing run, start it as a job, poll the job, and stop it.

A subclass says what a slot and a job are: a process of this machine (local.py), a Slurm job (slurm.py), a Ray task
(ray.py), or a call in this process (inline.py). A run that another sweep has started is left to that sweep, and taken
over if that sweep dies.
"""

import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher as HydraLauncher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from highway.errors import Refused, counted
from highway.keys.schema import Written, validated
from highway.sweep.planned_run import EXIT_REFUSED, Planned
from highway.tables.typed import quoted, search_path

LOOK_EVERY = 1.0  # seconds between two checks of runs that other sweeps have started
POLL_EVERY = 0.02  # seconds between two polls of the running jobs; a slot stays empty at most that long


class Job(Protocol):
    """A run that was started. A process of subprocess is a job as it is."""

    def poll(self) -> int | None:
        """Return the exit code, or None while the job waits, runs, or is about to run again."""

    def terminate(self) -> None:
        """Ask the job to save a checkpoint and exit; the job may still be queued."""

    def wait(self) -> Any:
        """Block until the job has ended."""


class Launcher(HydraLauncher):
    """The base of our launchers: Hydra passes overrides to a launcher, our sweeper passes planned runs."""

    Settings: type[Written] = Written  # the keys of hydra.launcher, which a file of conf/hydra/launcher/ explains
    threads: int | None = None  # threads of a run that does not set trainer.threads; None: every core of its machine
    spans_nodes = False  # True if a run may use several machines
    queues = False  # True if a run may wait in a queue after it has been started
    in_this_process = False  # True if runs print their own progress here

    def __init__(self, **given: Any) -> None:
        self.settings: Any = validated(self.Settings, given, "hydra.launcher")

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        raise NotImplementedError("highway's launchers work with hydra/sweeper=highway")

    def threads_of_a_run(self, to_run: Sequence[Planned], in_sweep: int) -> int | None:
        """Return `threads` for these runs, out of all in the sweep, without starting anything."""
        return self.threads

    def prepare(self, to_run: Sequence[Planned], in_sweep: int) -> int:
        """Get ready for these runs, out of all in the sweep; return how many can run at once."""
        raise NotImplementedError

    def take(self, planned: Planned) -> bool:
        """Take a slot for a run and return True, or False if none is free; Slurm and Ray queue the run themselves."""
        return True

    def give_back(self, planned: Planned) -> None:
        """Give back the slot of a run."""

    def start(self, to_run: Sequence[Planned]) -> Iterable[tuple[Planned, Job]]:
        """Start these runs, which have their slots; yield each with its job."""
        raise NotImplementedError

    def surroundings(self) -> AbstractContextManager[Any]:
        """Return what surrounds all runs, once `prepare` has been called."""
        return nullcontext()

    def launch_runs(self, to_run: Sequence[Planned], in_sweep: int, fail_fast: bool) -> None:
        """Run these, out of all in the sweep, until all have ended here or in other sweeps.

        With fail_fast, return when the first run fails.
        """
        from highway.sweep.live_overview import LiveOverview  # imports rich: Hydra loads this file for single runs too

        wide = next((run for run in to_run if run.trainer.nodes > 1), None)
        if wide and not self.spans_nodes:
            asked = f"trainer.nodes={wide.trainer.nodes}"
            raise Refused(f"{asked} needs hydra/launcher=slurm: only Slurm starts a run on several machines.")
        at_once = self.prepare(to_run, in_sweep)
        self.waiting = list(to_run)
        self.running: dict[Planned, Job] = {}
        self.tried_again: set[Planned] = set()  # runs that were refused once, though no other process had them
        with (
            _interruptible(),
            self.surroundings(),
            LiveOverview(to_run, at_once, self.queues, self.in_this_process) as self.overview,
        ):
            try:
                self._work(fail_fast)
            finally:
                self._stop()

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
                look_at = time.monotonic() + LOOK_EVERY
            self.overview.update(self.waiting, list(self.running))
            time.sleep(POLL_EVERY)

    def _ended(self, planned: Planned, code: int) -> bool:
        """Give back the slot of a job that has ended; return False if its run failed."""
        del self.running[planned]
        self.give_back(planned)
        move = planned.next_move()
        second_try = code == EXIT_REFUSED and move == "start" and planned not in self.tried_again
        if second_try:
            self.tried_again.add(planned)
        if move == "wait" or second_try or (code == EXIT_REFUSED and move == "leave"):
            self.waiting.append(planned)  # another process had its lease, and perhaps has ended since: look again
            return True
        self.overview.ended(planned, code)
        return code == 0

    def _fill(self) -> None:
        """Start every run that gets a slot; skip runs of other sweeps, and drop those that have ended there."""
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
            job.terminate()
        for job in self.running.values():
            job.wait()

    def threads_of(self, planned: Planned) -> int | None:
        """Return the threads of a run that does not set trainer.threads."""
        return self.threads

    def command(self, planned: Planned) -> list[str]:
        """Return the command that trains a run in a process of its own, the same for every launcher."""
        overrides = [*search_path(self.config), *map(str, planned.overrides)]
        if not any(override.startswith("trainer.threads=") for override in overrides):
            overrides.append(f"trainer.threads={self.threads_of(planned)}")
        for key in ("data_dir", "outputs_dir"):
            overrides.append(f"{key}={quoted(str(Path(self.config[key]).resolve()))}")
        return [sys.executable, "-m", "highway", "train", *overrides]


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP interrupt a sweep as Ctrl-C does, so that it stops its runs first."""
    before: dict[int, Any] = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # an ignored SIGHUP comes from nohup and stays ignored; a shell's & ignores SIGINT without meaning it
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            before[number] = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for changed, handler in before.items():
            signal.signal(changed, handler)
