"""What all launchers share that run a cell as a process of its own: one command a cell, and the watch over them.

An engine says how much room there is (`take`, `give_back`) and how a command is started (`start`); local processes,
Slurm's jobs and Ray's tasks are jobs alike. Cells that another sweep runs are left to it, and taken over if it dies.
"""

import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from highway.errors import Refused, as_typed
from highway.sweep.launch import LOOK_AGAIN, CellLauncher, Planned, quoted

TRAIN = Path(__file__).parents[2] / "scripts" / "train.py"
LOOK = 0.02  # seconds between two looks at the running cells: a slot stands empty no longer than that


class Job(Protocol):
    def poll(self) -> int | None:
        """Its exit code; None while it waits, runs, or is to be run again."""

    def stop(self) -> None:
        """Ask it to save where it is, and to end; it may be waiting still."""

    def wait(self) -> Any:
        """Until it has ended."""


def check_whole(key: str, value: Any, least: int = 1) -> None:
    """Of a launcher's settings; null, where it means something, is not to be asked for."""
    if type(value) is not int or value < least:
        raise Refused(f"hydra.launcher.{key}={as_typed(value)} is not a whole number from {least} upwards.")


class EngineLauncher(CellLauncher):
    threads: int  # of a cell whose words name none
    spans_nodes = False  # whether one cell may have several machines
    queues = False  # whether a cell may wait for long between its start and its beginning

    def threads_of_a_run(self, missing: Sequence[Planned], planned: int) -> int | None:
        return self.threads

    def prepare(self, cells: Sequence[Planned], planned: int) -> int:
        """Get ready for cells, of `planned` in the sweep; how many may run at once."""
        raise NotImplementedError

    def start(self, cells: Sequence[Planned]) -> Iterable[tuple[Planned, Job]]:
        """Each of the cells with its job, as it is started; there is room for them."""
        raise NotImplementedError

    def take(self, planned: Planned) -> bool:
        """Room for a cell, if there is any now; engines with a queue of their own always have it."""
        return True

    def give_back(self, planned: Planned) -> None:
        """The cell needs its room no more."""

    def launch_cells(self, cells: Sequence[Planned], planned: int, fail_fast: bool) -> None:
        from highway.sweep.overview import Overview  # rich, which a single run has no use for; Hydra loads this file

        wide = next((one for one in cells if one.nodes > 1), None)
        if wide and not self.spans_nodes:
            raise Refused(f"trainer.nodes={wide.nodes} needs hydra/launcher=slurm: only srun starts a cell on nodes.")
        at_once = self.prepare(cells, planned)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # nohup means it; a shell's & does not
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.default_int_handler)
        self.waiting = list(cells)
        self.running: dict[Planned, Job] = {}
        with Overview(cells, at_once, self.queues) as self.overview:
            try:
                self._work(fail_fast)
            finally:
                self._stop()

    def command(self, planned: Planned) -> list[str]:
        """What runs a cell, wherever it is started."""
        words = [str(word) for word in planned.overrides]
        if not any(word.startswith("trainer.threads=") for word in words):
            words.append(f"trainer.threads={self.threads}")
        for key in ("data_dir", "outputs_dir"):
            words.append(f"{key}={quoted(str(Path(self.config[key]).resolve()))}")
        words.append(f"hydra.run.dir={quoted(str(planned.cell.directory.resolve()))}")
        return [sys.executable, str(TRAIN), *words]

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
        """Make room; False if the cell went wrong."""
        del self.running[planned]
        self.give_back(planned)
        if planned.cell.status == "running":  # another sweep was first
            self.waiting.append(planned)
            return True
        self.overview.ended(planned, code)
        return code == 0

    def _fill(self) -> None:
        """Start what can be started now; leave what others run, forget what they have ended."""
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
        """Each cell saves where it is; also one that is still importing torch, and has nothing to save."""
        if self.running:
            self.overview.say(f"stopping {len(self.running)} cells; each saves where it is ...")
        for job in self.running.values():
            job.stop()
        for job in self.running.values():
            job.wait()
