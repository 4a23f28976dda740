"""hydra/launcher=local: the cells of a sweep as processes side by side on this machine.

A slot is a GPU (several cells may share one: `per_gpu`) or a share of the cores; each cell sees only its own
GPUs and has a fixed number of threads.
"""

import os
import subprocess
from collections.abc import Iterable, Sequence

from highway.ledger.device import cores
from highway.ledger.lease import SWEEP
from highway.sweep.engine import EngineLauncher, Job, check_whole
from highway.sweep.launch import Planned
from highway.sweep.slots import slots_for


class Process:
    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.poll, self.stop, self.wait = process.poll, process.terminate, process.wait


class LocalLauncher(EngineLauncher):
    def __init__(self, slots: int | None = None, per_gpu: int = 1) -> None:
        if slots is not None:
            check_whole("slots", slots)
        check_whole("per_gpu", per_gpu)
        self.slots, self.per_gpu = slots, per_gpu

    def threads_of_a_run(self, missing: Sequence[Planned], planned: int) -> int | None:
        self.prepare(missing, planned)  # decides the slots, which share the cores; starts nothing
        return self.threads

    def prepare(self, cells: Sequence[Planned], planned: int) -> int:
        accelerators, devices = {one.accelerator for one in cells}, max(one.devices for one in cells)
        self.free, self.on_gpus = slots_for(accelerators, devices, planned, self.slots, self.per_gpu)
        self.threads = max(cores() // self.free.count, 1)
        self.places: dict[Planned, list[str]] = {}
        return self.free.count

    def take(self, planned: Planned) -> bool:
        places = self.free.take(planned.devices)
        if places is not None:
            self.places[planned] = places
        return places is not None

    def give_back(self, planned: Planned) -> None:
        self.free.give_back(self.places.pop(planned))

    def start(self, cells: Sequence[Planned]) -> Iterable[tuple[Planned, Job]]:
        return ((planned, self._process(planned)) for planned in cells)

    def _process(self, planned: Planned) -> Process:
        surroundings = {
            "HIGHWAY_SLOTS": str(self.free.count),
            "OMP_NUM_THREADS": str(self.threads),
            SWEEP: str(os.getpid()),
        }
        if self.on_gpus:
            surroundings["CUDA_VISIBLE_DEVICES"] = ",".join(self.places[planned])
        planned.cell.directory.mkdir(parents=True, exist_ok=True)
        with open(planned.cell.log, "ab") as output:
            process = subprocess.Popen(
                self.command(planned),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **surroundings},
                start_new_session=True,  # a terminal's Ctrl-C reaches the sweep alone, which stops its cells
            )
        return Process(process)
