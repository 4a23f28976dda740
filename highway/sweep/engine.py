"""The base of every launcher that starts each run as a process: builds the commands, and watches them until they end.

A subclass reserves room (`take`, `give_back`) and starts commands (`start`). Local processes, Slurm jobs and Ray tasks
all implement `Job`. A run that another sweep has started is left to that sweep, and taken over if that sweep dies.
"""

import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from highway.config.keys import Written
from highway.config.mistakes import validated
from highway.errors import Refused, counted
from highway.sweep.launch import EXIT_REFUSED, LOOK_AGAIN, Planned, RunLauncher, search_path
from highway.sweep.shell import quoted

LOOK = 0.02  # seconds between two polls of the running jobs; a slot stays empty at most that long


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
