"""Where the cells of a sweep may run at once on this machine: shares of the cores, or GPUs with several cells each."""

import os
import shutil
import subprocess
from collections.abc import Sequence

from highway.errors import Refused
from highway.ledger.device import cores

MOST_ON_CPU = 4  # cells at once, where nothing is asked for


class Slots:
    """Places to take and to give back. A place on a GPU is the GPU's name, as CUDA_VISIBLE_DEVICES has it."""

    def __init__(self, places: Sequence[str]) -> None:
        self.count = len(places)
        self._names = sorted(set(places), key=list(places).index)
        self._free = list(places)

    @classmethod
    def of_gpus(cls, gpus: Sequence[str], per_gpu: int) -> "Slots":
        return cls([gpu for _ in range(per_gpu) for gpu in gpus])

    @classmethod
    def of_cores(cls, count: int) -> "Slots":
        return cls([f"cpu{number}" for number in range(count)])

    def most(self) -> int:
        """How many devices one cell can have."""
        return len(self._names)

    def take(self, devices: int) -> list[str] | None:
        """Places on so many different devices, the emptiest first; None when they are not free now."""
        by_room = sorted(self._names, key=lambda name: -self._free.count(name))
        chosen = [name for name in by_room if name in self._free][:devices]
        if len(chosen) < devices:
            return None
        for name in chosen:
            self._free.remove(name)
        return chosen

    def give_back(self, places: Sequence[str]) -> None:
        self._free.extend(places)


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, found without importing torch."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [gpu for gpu in chosen.split(",") if gpu.strip() and gpu.strip() != "-1"]
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    return listed.stdout.split() if listed.returncode == 0 else []


def slots_for(accelerators: set[str], devices: int, cells: int, slots: int | None, per_gpu: int) -> tuple[Slots, bool]:
    """The slots for a sweep of so many cells, and whether they are on GPUs; the largest cell needs `devices`."""
    gpus = visible_gpus() if accelerators != {"cpu"} else []
    if not gpus and "gpu" in accelerators:
        raise Refused("trainer.accelerator=gpu, but no GPU is visible here; trainer.accelerator=cpu runs without one.")
    if gpus:
        found = Slots.of_gpus(gpus[:slots] if slots else gpus, per_gpu)
        if devices > found.most():
            raise Refused(f"trainer.devices={devices} needs {devices} GPUs; this sweep may use {found.most()}.")
        return found, True
    count = min(slots or min(cores(), MOST_ON_CPU), cells)
    return Slots.of_cores(max(count, devices)), False
