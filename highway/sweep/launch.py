"""Launchers: how the cells of a sweep are started. One operating-system process a cell, in a fixed directory."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from highway.config import check
from highway.sweep.cell import Cell

log = logging.getLogger("highway")
TRAIN = Path(__file__).parents[2] / "scripts" / "train.py"


@dataclass(frozen=True)
class Planned:
    """One cell of a sweep: the words that describe it, and where it lives."""

    label: str
    overrides: tuple[str, ...]
    cell: Cell


class CellLauncher(Launcher):
    """Hydra's interface takes overrides; ours takes planned cells, which know their directory."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context = hydra_context
        self.config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        raise NotImplementedError("highway's launchers work with hydra/sweeper=highway")

    def launch_cells(self, cells: Sequence[Planned]) -> None:
        raise NotImplementedError


class InlineLauncher(CellLauncher):
    """One after another in this process."""

    def launch_cells(self, cells: Sequence[Planned]) -> None:
        from highway.cli import command_line
        from highway.train import run

        for planned in cells:
            experiment = check(self.context.config_loader.load_sweep_config(self.config, list(planned.overrides)))
            if run(experiment, planned.cell, command_line(list(planned.overrides))) == "interrupted":
                raise KeyboardInterrupt


class LocalLauncher(CellLauncher):
    """Processes side by side on this machine, the cores shared out among them."""

    def __init__(self, slots: int | None = None) -> None:
        self.slots = slots

    def launch_cells(self, cells: Sequence[Planned]) -> None:
        cores = os.cpu_count() or 1
        slots = min(self.slots or min(cores, 4), len(cells))
        threads = max(cores // slots, 1)
        waiting = list(cells)
        running: dict[Planned, subprocess.Popen[bytes]] = {}
        for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell has told us to ignore Ctrl-C
            signal.signal(number, signal.default_int_handler)
        try:
            while waiting or running:
                while waiting and len(running) < slots:
                    planned = waiting.pop(0)
                    running[planned] = self._start(planned, threads, slots)
                    log.info("started   %s", planned.label)
                time.sleep(0.1)
                for planned, process in list(running.items()):
                    if process.poll() is not None:
                        del running[planned]
                        self._report(planned, process.returncode)
        except KeyboardInterrupt:
            log.info("stopping %d cells; each saves where it is ...", len(running))
            for process in running.values():
                process.terminate()  # also stops one that is still importing torch
            for process in running.values():
                process.wait()
            raise

    def _start(self, planned: Planned, threads: int, slots: int) -> "subprocess.Popen[bytes]":
        words = [str(word) for word in planned.overrides]
        if not any(word.startswith("trainer.threads=") for word in words):
            words.append(f"trainer.threads={threads}")
        for key in ("data_dir", "outputs_dir"):
            words.append(f"{key}={quoted(str(Path(self.config[key]).resolve()))}")
        words.append(f"hydra.run.dir={quoted(str(planned.cell.directory.resolve()))}")
        planned.cell.directory.mkdir(parents=True, exist_ok=True)
        with open(planned.cell.log, "ab") as output:
            return subprocess.Popen(
                [sys.executable, str(TRAIN), *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "HIGHWAY_SLOTS": str(slots), "OMP_NUM_THREADS": str(threads)},
                start_new_session=True,  # a terminal's Ctrl-C reaches the sweep alone, which stops its cells
            )

    def _report(self, planned: Planned, code: int) -> None:
        result = planned.cell.result()
        if code == 0 and result:
            best = {name: values["best"] for name, values in result["metrics"].items()}
            shown = "  ".join(f"{name} {value:.4g}" for name, value in best.items() if name.startswith("test"))
            log.info("finished  %s  %s  (%.0f s)", planned.label, shown, result["cost"]["seconds"])
        else:
            log.error("ended     %s with code %d: %s", planned.label, code, last_words(planned.cell.log))


def last_words(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
    return f"{lines[-1]} ({path})" if lines else str(path)


def quoted(text: str) -> str:
    """A value that Hydra's grammar reads back as this text."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
