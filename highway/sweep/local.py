"""hydra/launcher=local: the cells of a sweep as processes side by side on this machine.

A slot is a GPU (several cells may share one: `per_gpu`) or a share of the cores; each cell sees only its own
GPUs and has a fixed number of threads. Cells that another sweep runs are left to it, and taken over if it dies.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from highway.ledger.lease import SWEEP
from highway.sweep.launch import LOOK_AGAIN, CellLauncher, Planned, quoted
from highway.sweep.slots import slots_for

TRAIN = Path(__file__).parents[2] / "scripts" / "train.py"


@dataclass
class Running:
    process: "subprocess.Popen[bytes]"
    places: list[str]


class LocalLauncher(CellLauncher):
    def __init__(self, slots: int | None = None, per_gpu: int = 1) -> None:
        self.slots = slots
        self.per_gpu = per_gpu

    def launch_cells(self, cells: Sequence[Planned], planned: int, fail_fast: bool) -> None:
        from highway.sweep.overview import Overview  # rich, which a single run has no use for; Hydra loads this file

        accelerators, devices = {one.accelerator for one in cells}, max(one.devices for one in cells)
        self.free, self.on_gpus = slots_for(accelerators, devices, planned, self.slots, self.per_gpu)
        self.threads = max((os.cpu_count() or 1) // self.free.count, 1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if (
                number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
            ):  # nohup means it; a shell's & does not
                signal.signal(number, signal.default_int_handler)
        self.waiting = list(cells)
        self.running: dict[Planned, Running] = {}
        with Overview(cells, self.free.count) as self.overview:
            try:
                self._work(fail_fast)
            finally:
                self._stop()

    def _work(self, fail_fast: bool) -> None:
        look_at = 0.0
        while self.waiting or self.running:
            ended = [planned for planned, one in self.running.items() if one.process.poll() is not None]
            failed = [planned for planned in ended if not self._ended(planned)]
            if failed and fail_fast:
                return
            if ended or time.monotonic() >= look_at:
                self._fill()
                look_at = time.monotonic() + LOOK_AGAIN
            self.overview.update(self.waiting, list(self.running))
            time.sleep(0.1)

    def _ended(self, planned: Planned) -> bool:
        """Make room; False if the cell went wrong."""
        one = self.running.pop(planned)
        self.free.give_back(one.places)
        if planned.cell.status == "running":  # another sweep was first
            self.waiting.append(planned)
            return True
        self.overview.ended(planned, one.process.returncode)
        return one.process.returncode == 0

    def _fill(self) -> None:
        """Start what can be started now; leave what others run, forget what they have ended."""
        for planned in list(self.waiting):
            places = self.free.take(planned.devices)
            if places is None:
                return
            move = planned.next_move()
            if move == "start":
                self.running[planned] = Running(self._start(planned, places), places)
                self.overview.started(planned)
            else:
                self.free.give_back(places)
            if move == "leave":
                self.overview.ended(planned, None)
            if move != "wait":
                self.waiting.remove(planned)

    def _start(self, planned: Planned, places: list[str]) -> "subprocess.Popen[bytes]":
        words = [str(word) for word in planned.overrides]
        if not any(word.startswith("trainer.threads=") for word in words):
            words.append(f"trainer.threads={self.threads}")
        for key in ("data_dir", "outputs_dir"):
            words.append(f"{key}={quoted(str(Path(self.config[key]).resolve()))}")
        words.append(f"hydra.run.dir={quoted(str(planned.cell.directory.resolve()))}")
        surroundings = {
            "HIGHWAY_SLOTS": str(self.free.count),
            "OMP_NUM_THREADS": str(self.threads),
            SWEEP: str(os.getpid()),
        }
        if self.on_gpus:
            surroundings["CUDA_VISIBLE_DEVICES"] = ",".join(places)
        planned.cell.directory.mkdir(parents=True, exist_ok=True)
        with open(planned.cell.log, "ab") as output:
            return subprocess.Popen(
                [sys.executable, str(TRAIN), *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **surroundings},
                start_new_session=True,  # a terminal's Ctrl-C reaches the sweep alone, which stops its cells
            )

    def _stop(self) -> None:
        """Each cell saves where it is; also one that is still importing torch, and has nothing to save."""
        if self.running:
            self.overview.say(f"stopping {len(self.running)} cells; each saves where it is ...")
        for one in self.running.values():
            one.process.terminate()
        for one in self.running.values():
            one.process.wait()
