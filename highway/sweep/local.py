"""hydra/launcher=local: trains the runs of a sweep as parallel processes on this machine.

A slot is a GPU (`per_gpu` runs share each) or a share of the cores. A run sees only the GPUs of its slots, and has a
fixed number of threads.
"""

import os
import subprocess
from collections.abc import Iterable, Sequence

from highway.config.keys import Written, number
from highway.files.device import cores
from highway.ledger.lease import SWEEP
from highway.sweep.engine import EngineLauncher, Job
from highway.sweep.launch import Planned
from highway.sweep.slots import slots_for


class Process:
    """A local process as a `Job`."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.poll, self.stop, self.wait = process.poll, process.terminate, process.wait


class LocalSettings(Written):
    slots: int | None = number(None, 1)
    per_gpu: int = number(1, 1)


class LocalLauncher(EngineLauncher):
    Settings = LocalSettings
    settings: LocalSettings

    def threads_of_a_run(self, missing: Sequence[Planned], planned: int) -> int | None:
        self.prepare(missing, planned)  # counts the slots among which the cores are divided; starts nothing
        return self.threads

    def prepare(self, to_run: Sequence[Planned], planned: int) -> int:
        accelerators, devices = {run.accelerator for run in to_run}, max(run.devices for run in to_run)
        self.free, self.on_gpus = slots_for(accelerators, devices, planned, self.settings.slots, self.settings.per_gpu)
        self.threads = max(cores() // self.free.count, 1)
        self.taken: dict[Planned, list[str]] = {}
        return self.free.count

    def take(self, planned: Planned) -> bool:
        names = self.free.take(planned.devices)
        if names is not None:
            self.taken[planned] = names
        return names is not None

    def give_back(self, planned: Planned) -> None:
        self.free.give_back(self.taken.pop(planned))

    def start(self, to_run: Sequence[Planned]) -> Iterable[tuple[Planned, Job]]:
        return ((planned, self._started(planned)) for planned in to_run)

    def _started(self, planned: Planned) -> Process:
        planned.directory.path.mkdir(parents=True, exist_ok=True)
        environment = {
            "HIGHWAY_SLOTS": str(self.free.count),
            "OMP_NUM_THREADS": str(self.threads),
            SWEEP: str(os.getpid()),
        }
        if self.on_gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(self.taken[planned])
        with open(planned.directory.log, "ab") as output:
            process = subprocess.Popen(
                self.command(planned),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **environment},
                start_new_session=True,  # Ctrl-C in a terminal then reaches only the sweep, which stops its runs
            )
        return Process(process)
