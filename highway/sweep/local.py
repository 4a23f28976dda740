"""hydra/launcher=local: trains the runs of a sweep as parallel processes on this machine.

A slot is a GPU (`per_gpu` runs share each) or a share of the cores. A run sees only the GPUs of its slots, and has a
fixed number of threads.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence

from highway.config.keys import Written, number
from highway.errors import Refused
from highway.files.device import cores
from highway.ledger.lease import SWEEP
from highway.sweep.launcher import EngineLauncher, Job, Planned

MOST_ON_CPU = 4  # parallel runs on the CPU if hydra.launcher.slots is not set


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


class Slots:
    """Slots to take and to give back. A slot on a GPU has the GPU's name in CUDA_VISIBLE_DEVICES; names may repeat."""

    def __init__(self, names: Sequence[str]) -> None:
        self.count = len(names)
        self._names = sorted(set(names), key=list(names).index)
        self._free = list(names)

    @classmethod
    def of_gpus(cls, gpus: Sequence[str], per_gpu: int) -> "Slots":
        return cls([gpu for _ in range(per_gpu) for gpu in gpus])

    @classmethod
    def of_cores(cls, count: int) -> "Slots":
        return cls([f"cpu{number}" for number in range(count)])

    def most(self) -> int:
        """Return the largest number of devices that a run can have."""
        return len(self._names)

    def take(self, devices: int) -> list[str] | None:
        """Take slots on so many different devices, the emptiest first; return None if they are not free now."""
        by_room = sorted(self._names, key=lambda name: -self._free.count(name))
        chosen = [name for name in by_room if name in self._free][:devices]
        if len(chosen) < devices:
            return None
        for name in chosen:
            self._free.remove(name)
        return chosen

    def give_back(self, names: Sequence[str]) -> None:
        self._free.extend(names)


def visible_gpus() -> list[str]:
    """List the GPUs that this process may use, without importing torch."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [gpu for gpu in chosen.split(",") if gpu.strip() and gpu.strip() != "-1"]
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    return listed.stdout.split() if listed.returncode == 0 else []


def slots_for(accelerators: set[str], devices: int, to_run: int, slots: int | None, per_gpu: int) -> tuple[Slots, bool]:
    """Return the slots for a sweep of `to_run` runs, and True if they are on GPUs; the largest run needs `devices`."""
    gpus = visible_gpus() if accelerators != {"cpu"} else []
    if not gpus and "gpu" in accelerators:
        raise Refused(
            "trainer.accelerator=gpu is set, but no GPU is visible here. Write trainer.accelerator=cpu instead."
        )
    if gpus:
        gpu_slots = Slots.of_gpus(gpus[:slots] if slots else gpus, per_gpu)
        if devices > gpu_slots.most():
            raise Refused(f"trainer.devices={devices} needs {devices} GPUs; this sweep may use {gpu_slots.most()}.")
        return gpu_slots, True
    count = min(slots or min(cores(), MOST_ON_CPU), to_run)
    return Slots.of_cores(max(count, devices)), False
