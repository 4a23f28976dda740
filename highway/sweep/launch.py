"""Launchers: how the cells of a sweep are started, each in its fixed directory. Here the interface, and `inline`.

What runs a cell in this process is handed to `inline` (hydra_plugins/highway_sweep.py): a sweep imports no training.
"""

import logging
import re
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from highway.config.check import check
from highway.config.compose import Composer
from highway.config.experiment import Experiment
from highway.config.guard import composing
from highway.errors import Held
from highway.ledger.cell import DONE, Cell
from highway.ledger.together import Timing
from highway.sweep.timed import timing

log = logging.getLogger("highway")
LOOK_AGAIN = 1.0  # seconds, where the only cells left are run by others


@dataclass(frozen=True)
class Planned:
    """One cell of a sweep: the words that describe it, where it lives, and what it needs."""

    label: str
    overrides: tuple[str, ...]
    cell: Cell
    accelerator: str
    devices: int
    before: str = "waiting"  # its status when the sweep began; a failed one is here because it is to be run again
    alone: bool = False  # a timing, beside which nothing else of the sweep may run
    fingerprint: str = ""  # of the code that would run it now
    nodes: int = 1  # each with so many devices
    experiment: Experiment | None = field(default=None, compare=False)  # None: of a timing, which reads no data

    def next_move(self) -> Literal["start", "wait", "leave"]:
        """wait: another process runs it. leave: another sweep has ended it meanwhile."""
        status = self.cell.status
        if status == "running":
            return "wait"
        return "leave" if status in DONE or (status == "failed" and self.before != "failed") else "start"


class CellLauncher(Launcher):
    """Hydra's interface takes overrides; ours takes planned cells, which know their directory."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context = hydra_context
        self.config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        raise NotImplementedError("highway's launchers work with hydra/sweeper=highway")

    def threads_of_a_run(self, missing: Sequence[Planned], planned: int) -> int | None:
        """Return how many threads a run gets that names none; None: every core of the machine it runs on."""
        return None

    def launch_cells(self, cells: Sequence[Planned], planned: int, fail_fast: bool) -> None:
        """Run cells until all are ended, by us or by others, of `planned` in the sweep; fail_fast: until one fails."""
        raise NotImplementedError


class InlineLauncher(CellLauncher):
    """One after another in this process."""

    run: Callable[[Experiment, Cell, str], str]  # a cell, to the status that it then has
    time_rows: Callable[[Timing, str], str]

    def launch_cells(self, cells: Sequence[Planned], planned: int, fail_fast: bool) -> None:
        waiting = list(cells)
        while waiting:
            moves = {one: one.next_move() for one in waiting}
            waiting = [one for one in waiting if moves[one] != "leave"]
            ready = [one for one in waiting if moves[one] == "start"]
            if not ready:
                time.sleep(LOOK_AGAIN)
                continue
            waiting.remove(ready[0])
            words = list(ready[0].overrides)
            try:
                if ready[0].alone:
                    status = self.time_rows(timing(words, partial(composed, self)), command_line(words))
                else:
                    status = self.run(composed(self, words), ready[0].cell, command_line(words))
            except Held:  # by another sweep, since we have looked
                waiting.append(ready[0])
                continue
            if status == "interrupted":
                raise KeyboardInterrupt
            if fail_fast and status != "finished":
                return


def composed(plugin: Any, words: Sequence[str]) -> Experiment:
    """What words describe, with the search path of the sweep that this sweeper or launcher serves."""
    hydra = plugin.config.hydra
    composer = _composer(plugin.context.config_loader, hydra.job.config_name, tuple(hydra.overrides.hydra))
    with composing():
        config = composer(words)
    return check(config)


_composer = cache(Composer)


def command_line(overrides: Sequence[str]) -> str:
    """How a user would type a run, to be pasted into a shell: without the folders that a launcher or machine adds."""
    ours = [word for word in overrides if not re.match(r"(hydra\.|data_dir=|outputs_dir=|logger[.=])", word)]
    return f"python scripts/train.py {shlex.join(ours)}"


def last_words(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
    return f"{lines[-1]} ({path})" if lines else str(path)


def quoted(text: str) -> str:
    """A value that Hydra's grammar reads back as this text: backslashes count before a quote, a `${` and the end."""
    escaped = re.sub(r"(\\*)\$\{", r"\1\1\\${", text)
    return "'" + re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + found[2].replace("'", "\\'"), escaped) + "'"
