"""hydra/launcher=local: trains the runs of a sweep as parallel processes on this machine.

A slot is a GPU (`per_gpu` runs share each) or a share of the cores. A run sees only the GPUs of its slots, and has a
fixed number of threads.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BeforeValidator

from highway.errors import Refused
from highway.keys.schema import Written, number
from highway.machine import cores, output_of
from highway.sweep.launcher import Job, Launcher
from highway.sweep.planned_run import Planned
from highway.sweep.process import start_process
from highway.sweep.sharing import runs_on_a_gpu, shared_gpus

MOST_ON_CPU = 4  # parallel runs on the CPU if hydra.launcher.slots is not set


def _automatic(value: Any) -> Any:
    return None if value == "auto" else value


class LocalSettings(Written):
    slots: int | None = number(None, 1)
    per_gpu: Annotated[int | None, BeforeValidator(_automatic)] = number(None, 1)


class LocalLauncher(Launcher):
    Settings = LocalSettings
    settings: LocalSettings
    of_mps: Mapping[str, str] = MappingProxyType({})  # the environment with which a run finds NVIDIA's MPS

    def threads_of_a_run(self, to_run: Sequence[Planned], in_sweep: int) -> int | None:
        self.prepare(to_run, in_sweep)  # counts the slots among which the cores are divided; starts nothing
        return self.threads

    def prepare(self, to_run: Sequence[Planned], in_sweep: int) -> int:
        devices = max(run.trainer.devices for run in to_run)
        self.slots = slots_for(to_run, devices, in_sweep, self.settings)
        self.threads = max(cores() // self.slots.count, 1)
        self.taken: dict[Planned, list[str]] = {}
        self.at_once = min(self.slots.count // devices, in_sweep)
        return self.at_once

    @contextmanager
    def surroundings(self) -> Iterator[None]:
        shared = self.slots.on_gpus and self.slots.count > len(self.slots.devices)
        if not shared:
            yield
            return
        with shared_gpus() as self.of_mps:
            yield

    def take(self, planned: Planned) -> bool:
        names = self.slots.take(planned.trainer.devices)
        if names is not None:
            self.taken[planned] = names
        return names is not None

    def give_back(self, planned: Planned) -> None:
        self.slots.give_back(self.taken.pop(planned))

    def start(self, to_run: Sequence[Planned]) -> Iterable[tuple[Planned, Job]]:
        for planned in to_run:
            environment = {"HIGHWAY_SLOTS": str(self.at_once), "OMP_NUM_THREADS": str(self.threads)}
            if self.slots.on_gpus:
                environment |= {"CUDA_VISIBLE_DEVICES": ",".join(self.taken[planned]), **self.of_mps}
                environment["TORCHINDUCTOR_COMPILE_THREADS"] = str(self.threads)  # else 32 processes a run
            yield planned, start_process(self.command(planned), planned.directory.log, environment)


class Slots:
    """Slots to take and to give back: the names of their devices, each as often as runs may share the device."""

    def __init__(self, names: Sequence[str], on_gpus: bool = False) -> None:
        """on_gpus: the names are those of GPUs in CUDA_VISIBLE_DEVICES."""
        self.count, self.on_gpus = len(names), on_gpus
        self.devices = [*dict.fromkeys(names)]
        self._free = [*names]

    def take(self, devices: int) -> list[str] | None:
        """Take slots on so many different devices, the emptiest first; return None if they are not free now."""
        by_room = sorted(self.devices, key=self._free.count, reverse=True)
        chosen = [name for name in by_room if name in self._free][:devices]
        if len(chosen) < devices:
            return None
        for name in chosen:
            self._free.remove(name)
        return chosen

    def give_back(self, names: Sequence[str]) -> None:
        self._free.extend(names)


def slots_for(to_run: Sequence[Planned], devices: int, in_sweep: int, settings: LocalSettings) -> Slots:
    """Return the slots for these runs, out of all in the sweep; the largest run needs `devices`."""
    accelerators = {run.trainer.accelerator for run in to_run}
    gpus = visible_gpus() if accelerators != {"cpu"} else []
    if not gpus and "gpu" in accelerators:
        raise Refused(
            "trainer.accelerator=gpu is set, but no GPU is visible here. Write trainer.accelerator=cpu instead."
        )
    if not gpus:
        count = min(settings.slots or min(cores(), MOST_ON_CPU), in_sweep)
        return Slots([f"cpu{number}" for number in range(max(count, devices))])
    gpus = gpus[: settings.slots]  # all of them if slots is null
    if devices > len(gpus):
        raise Refused(f"trainer.devices={devices} needs {devices} GPUs; this sweep may use {len(gpus)}.")
    return Slots(gpus * (settings.per_gpu or runs_on_a_gpu(to_run, in_sweep, gpus)), on_gpus=True)


def visible_gpus() -> list[str]:
    """List the GPUs that this process may use, without importing torch."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [gpu for gpu in chosen.split(",") if gpu.strip() and gpu.strip() != "-1"]
    return output_of("nvidia-smi", "--query-gpu=index", "--format=csv,noheader").split()
