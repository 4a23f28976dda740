"""The interface of all launchers, which start the runs of a sweep in their directories; and the launcher `inline`.

hydra_plugins/highway_sweep.py passes the training function to `inline`, so that this room imports no training code.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from highway.config.compose import experiment
from highway.config.experiment import Experiment
from highway.errors import Held
from highway.ledger.directory import DONE, RunDirectory
from highway.sweep.shell import command_line, quoted

log = logging.getLogger("highway")
EXIT_REFUSED = 2  # the exit code of a run that was refused, for example because another process trains it
LOOK_AGAIN = 1.0  # seconds between two checks of runs that other sweeps have started


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
