"""Launchers: how the cells of a sweep are started, each in its fixed directory. Here the interface, and `inline`."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from highway.config.check import check
from highway.config.schema import Experiment
from highway.ledger.cell import DONE, Cell
from highway.ledger.timed import timing

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

    def launch_cells(self, cells: Sequence[Planned], planned: int, fail_fast: bool) -> None:
        """Run cells until all are ended, by us or by others, of `planned` in the sweep; fail_fast: until one fails."""
        raise NotImplementedError


class InlineLauncher(CellLauncher):
    """One after another in this process."""

    def launch_cells(self, cells: Sequence[Planned], planned: int, fail_fast: bool) -> None:
        from highway.cli import command_line
        from highway.run.timing import run as time_rows
        from highway.train import run

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
            if ready[0].alone:
                status = time_rows(timing(words, partial(composed, self)), command_line(words))
            else:
                status = run(composed(self, words), ready[0].cell, command_line(words))
            if status == "interrupted":
                raise KeyboardInterrupt
            if fail_fast and status != "finished":
                return


def composed(plugin: Any, words: Sequence[str]) -> Experiment:
    """What words describe, with the search path of the sweep that this sweeper or launcher serves."""
    return check(plugin.context.config_loader.load_sweep_config(plugin.config, list(words)))


def last_words(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
    return f"{lines[-1]} ({path})" if lines else str(path)


def quoted(text: str) -> str:
    """A value that Hydra's grammar reads back as this text."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
