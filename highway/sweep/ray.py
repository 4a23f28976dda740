"""hydra/launcher=ray: every cell a task on a Ray cluster: one that runs, or one of this machine while the sweep lasts.

A task starts the cell's command as a process and waits for it. The process is tied to Ray's worker as a cell is to its
sweep: where the worker is lost it saves and ends, and the cell goes on from there in another task.
"""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from functools import partial
from typing import Any

from highway.errors import Refused
from highway.ledger.lease import SWEEP
from highway.sweep.engine import EngineLauncher, Job, check_whole
from highway.sweep.launch import Planned
from highway.sweep.overview import EXIT_REFUSED

ANSWERS = 10.0  # seconds in which a cluster must answer; Ray itself tries for two minutes
INTERRUPTED = 130
OBJECTS = 100 * 2**20  # bytes that a cluster of our own sets aside for objects; ours are exit codes
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # what later versions do, and this one warns of
}


def run_cell(command: list[str], output: str, surroundings: dict[str, str]) -> int:
    """What Ray's worker does: a cell as a process, whose exit code it gives.

    The cell saves where it is when the task is cancelled, and when the node that started the worker is gone.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's & ignores it, and so would all that Ray starts
    node, asked = os.getppid(), False
    surroundings = {**os.environ, **surroundings, SWEEP: str(os.getpid())}
    with open(output, "ab") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=surroundings, start_new_session=True
        )
    while True:
        try:
            while process.poll() is None and (asked or os.getppid() == node):
                time.sleep(0.1)
            if process.returncode is not None and os.getppid() != node:
                os._exit(1)  # lost, for the sweep to notice: it might hear of a mere interruption
            if process.returncode is not None:
                return process.returncode
        except KeyboardInterrupt:  # Ray's word for a cancelled task; it may say it again
            pass
        if not asked:
            process.terminate()
        asked = True


class Task:
    """A cell's task, and the next one where Ray has lost it."""

    def __init__(self, planned: Planned, submit: Callable[[], Any], retries: int) -> None:
        self.planned, self.submit, self.retries = planned, submit, retries
        self.losses = 0
        self.reference = submit()

    def poll(self) -> int | None:
        import ray

        if self.reference is not None:
            return self._code() if ray.wait([self.reference], timeout=0)[0] else None
        if self.planned.cell.status != "running":  # the lost worker's process has saved, and holds the cell no more
            self.reference = self.submit()
        return None

    def stop(self) -> None:
        import ray

        if self.reference is not None:
            ray.cancel(self.reference)

    def wait(self) -> None:
        import ray

        if self.reference is not None:
            ray.wait([self.reference])

    def _code(self) -> int | None:
        import ray
        from ray.exceptions import RayError, RayTaskError, TaskCancelledError

        try:
            code: int = ray.get(self.reference)
            if code != EXIT_REFUSED or not self.losses:
                return code
            why = "the cell was still held"  # by the lost worker's process, which had yet to notice
        except TaskCancelledError:
            return INTERRUPTED
        except RayTaskError as error:
            return self._failed(f"Ray's worker could not start it: {error.cause}")
        except RayError as error:
            why = type(error).__name__
        self.losses += 1
        if self.losses > self.retries:
            return self._failed(f"Ray lost it {self.losses} times, last with {why}")
        self.reference = None
        return None

    def _failed(self, why: str) -> int:
        with open(self.planned.cell.log, "a") as file:
            print(" ".join(why.split()), file=file)
        return 1


class RayLauncher(EngineLauncher):
    queues = True

    def __init__(
        self,
        address: str | None = None,
        cores: int | None = None,
        num_cpus: int = 1,
        per_gpu: int = 1,
        retries: int = 3,
    ) -> None:
        if importlib.util.find_spec("ray") is None:
            raise Refused("hydra/launcher=ray needs Ray, which is not installed: pip install -e '.[ray]'.")
        if address is not None and not isinstance(address, str):
            raise Refused(f"hydra.launcher.address={address} must be auto, host:port, ray://host:port or null.")
        if cores is not None:
            check_whole("cores", cores)
        check_whole("num_cpus", num_cpus)
        check_whole("per_gpu", per_gpu)
        check_whole("retries", retries, least=0)
        if address is not None and cores is not None:
            raise Refused("hydra.launcher.cores is of a cluster on this machine; one with an address has its own.")
        self.address, self.cores, self.threads = address, cores, num_cpus
        self.per_gpu, self.retries = per_gpu, retries

    def launch_cells(self, cells: Sequence[Planned], planned: int, fail_fast: bool) -> None:
        import ray

        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):  # Ray prints there what its nodes complain of
            _connect(self.address, self.cores)
            try:
                super().launch_cells(cells, planned, fail_fast)
            finally:
                ray.shutdown()

    def prepare(self, cells: Sequence[Planned], planned: int) -> int:
        import ray

        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        self.on_gpus = any(node.get("GPU") for node in nodes)
        if not self.on_gpus and any(one.accelerator == "gpu" for one in cells):
            raise Refused("trainer.accelerator=gpu, but Ray's cluster has no GPU; accelerator=cpu runs without one.")
        for one in cells:
            if not any(_room(node, self.needs(one)) for node in nodes):
                wanted = " and ".join(f"{amount:g} {name}" for name, amount in self.needs(one).items() if amount)
                raise Refused(f"{one.label} needs {wanted}, and no node of Ray's cluster has so much.")
        self.at_once = sum(_room(node, self.needs(cells[0])) for node in nodes)
        return self.at_once

    def needs(self, planned: Planned) -> dict[str, float]:
        """As Ray counts it: a GPU in ten thousandths, and parts of one GPU only."""
        gpus = 0.0
        if self.on_gpus and planned.accelerator != "cpu":
            gpus = planned.devices if planned.devices > 1 else 10_000 // self.per_gpu / 10_000
        return {"CPU": self.threads * planned.devices, "GPU": gpus}

    def start(self, cells: Sequence[Planned]) -> Iterable[tuple[Planned, Job]]:
        return ((planned, Task(planned, partial(self._submit, planned), self.retries)) for planned in cells)

    def _submit(self, planned: Planned) -> Any:
        import ray

        planned.cell.directory.mkdir(parents=True, exist_ok=True)
        surroundings = {"HIGHWAY_SLOTS": str(self.at_once), "OMP_NUM_THREADS": str(self.threads)}
        needs = self.needs(planned)
        task = ray.remote(num_cpus=needs["CPU"], num_gpus=needs["GPU"], max_retries=0)(run_cell)
        return task.remote(self.command(planned), str(planned.cell.log.resolve()), surroundings)


def _room(node: dict[str, float], needs: dict[str, float]) -> int:
    """How many such cells a node holds when it is empty."""
    return min(int(node.get(name, 0) / amount + 1e-6) for name, amount in needs.items() if amount)


def _connect(address: str | None, cores: int | None) -> None:
    """One sentence where it fails, soon, and without a word of Ray's own."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    import ray
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # a worker needs none of our modules to start a process
    about: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        own: dict[str, Any] = {"num_cpus": cores, "include_dashboard": False, "object_store_memory": OBJECTS}
        ray.init(address="local", **about, **own)
        return
    found = (os.environ.get("RAY_ADDRESS") or address) if address == "auto" else address
    host, colon, port = found.removeprefix("ray://").rpartition(":")
    try:
        if colon:
            socket.create_connection((host, int(port)), timeout=ANSWERS).close()
        ray.init(address=found, **about)
    except (OSError, ValueError, RuntimeError, SystemExit) as error:
        gave_up = isinstance(error, SystemExit)  # Ray ends the process where nothing answers
        why = "it does not answer" if gave_up else " ".join(str(error).split())
        raise Refused(f"hydra.launcher.address={address}: no Ray cluster could be joined there ({why}).") from None
