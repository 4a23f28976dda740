"""hydra/launcher=ray: trains each run as a task on a Ray cluster.

The cluster is an existing one, or a local one that lasts as long as the sweep. A task starts the run's command as a
process and waits for it. When the Ray worker is lost, the process saves a checkpoint and exits, and another task
resumes the run.
"""

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

from highway.config.extras import need
from highway.config.keys import Written, number
from highway.config.project import SETTING, project
from highway.errors import Refused
from highway.files.writing import append_text
from highway.ledger.lease import SWEEP
from highway.sweep.launcher import EXIT_REFUSED, EngineLauncher, Job, Planned

ANSWERS = 10.0  # seconds within which a cluster must answer; Ray itself tries for two minutes
INTERRUPTED = 130
OBJECTS = 100 * 2**20  # bytes of object store in a local cluster; our tasks return only exit codes
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # the default of later versions; without it this version warns
}


def run_cell(command: list[str], output: str, surroundings: dict[str, str]) -> int:
    """Train a run as a process in a Ray worker, and return the exit code of the process.

    The run saves a checkpoint when the task is cancelled, and when the node that started the worker is lost.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's & ignores SIGINT, and children inherit that
    node, stopping = os.getppid(), False
    surroundings = {**os.environ, **surroundings, SWEEP: str(os.getpid())}
    with open(output, "ab") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=surroundings, start_new_session=True
        )
    while True:
        try:
            while process.poll() is None and (stopping or os.getppid() == node):
                time.sleep(0.1)
            if process.returncode is not None and os.getppid() != node:
                os._exit(1)  # the sweep then sees a lost worker; an exit code could arrive as a mere interruption
            if process.returncode is not None:
                return process.returncode
        except KeyboardInterrupt:  # Ray cancels a task with it, perhaps several times
            pass
        if not stopping:
            process.terminate()
        stopping = True


class Task:
    """A run as a Ray task, which is submitted again when Ray has lost it."""

    def __init__(self, planned: Planned, submit: Callable[[], Any], retries: int) -> None:
        self.planned, self.submit, self.retries = planned, submit, retries
        self.losses = 0
        self.reference = submit()

    def poll(self) -> int | None:
        import ray

        if self.reference is not None:
            return self._code() if ray.wait([self.reference], timeout=0)[0] else None
        if self.planned.directory.status != "running":  # the lost worker's process has saved and let go of the lease
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
            why = "the run was still leased"  # by the process of the lost worker, which has not noticed the loss yet
        except TaskCancelledError:
            return INTERRUPTED
        except RayTaskError as error:
            return self._failed(f"the Ray worker could not start the run: {error.cause}")
        except RayError as error:
            why = type(error).__name__
        self.losses += 1
        if self.losses > self.retries:
            return self._failed(f"Ray lost the run {self.losses} times; the last error was: {why}")
        self.reference = None
        return None

    def _failed(self, why: str) -> int:
        append_text(self.planned.directory.log, " ".join(why.split()) + "\n")
        return 1


class RaySettings(Written):
    address: str | None = None
    cores: int | None = number(None, 1)
    num_cpus: int = number(1, 1)
    per_gpu: int = number(1, 1)
    retries: int = number(3, 0)

    def check(self) -> None:
        if self.address is not None and self.cores is not None:
            raise Refused(
                "hydra.launcher.cores applies only to a local Ray cluster; "
                "remove it when hydra.launcher.address is set."
            )


class RayLauncher(EngineLauncher):
    Settings = RaySettings
    settings: RaySettings
    queues = True

    def __init__(self, **given: Any) -> None:
        need("ray", "ray", "hydra/launcher=ray")
        super().__init__(**given)
        self.threads = self.settings.num_cpus

    def launch_runs(self, to_run: Sequence[Planned], planned: int, fail_fast: bool) -> None:
        import ray

        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):  # Ray prints warnings of its nodes on stdout
            _connect(self.settings.address, self.settings.cores)
            try:
                super().launch_runs(to_run, planned, fail_fast)
            finally:
                ray.shutdown()

    def prepare(self, to_run: Sequence[Planned], planned: int) -> int:
        import ray

        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        self.on_gpus = any(node.get("GPU") for node in nodes)
        if not self.on_gpus and any(run.accelerator == "gpu" for run in to_run):
            raise Refused(
                "trainer.accelerator=gpu is set, but the Ray cluster has no GPU. Write trainer.accelerator=cpu instead."
            )
        for run in to_run:
            if not any(_room(node, self.needs(run)) for node in nodes):
                needed = " and ".join(f"{amount:g} {name}" for name, amount in self.needs(run).items() if amount)
                raise Refused(f"{run.label} needs {needed}, but no node of the Ray cluster has that much.")
        self.at_once = sum(_room(node, self.needs(to_run[0])) for node in nodes)
        return self.at_once

    def needs(self, planned: Planned) -> dict[str, float]:
        """Return the CPUs and GPUs of a run as Ray counts them: shares of a GPU are multiples of 1/10,000."""
        gpus = 0.0
        if self.on_gpus and planned.accelerator != "cpu":
            gpus = planned.devices if planned.devices > 1 else 10_000 // self.settings.per_gpu / 10_000
        return {"CPU": self.threads * planned.devices, "GPU": gpus}

    def start(self, to_run: Sequence[Planned]) -> Iterable[tuple[Planned, Job]]:
        return ((planned, Task(planned, partial(self._submit, planned), self.settings.retries)) for planned in to_run)

    def _submit(self, planned: Planned) -> Any:
        import ray

        planned.directory.path.mkdir(parents=True, exist_ok=True)
        surroundings = {"HIGHWAY_SLOTS": str(self.at_once), "OMP_NUM_THREADS": str(self.threads)}
        if own := project():
            surroundings[SETTING] = str(own.folder)
        needs = self.needs(planned)
        task = ray.remote(num_cpus=needs["CPU"], num_gpus=needs["GPU"], max_retries=0)(run_cell)
        return task.remote(self.command(planned), str(planned.directory.log.resolve()), surroundings)


def _room(node: dict[str, float], needs: dict[str, float]) -> int:
    """Return how many runs with these needs fit on an empty node."""
    return min(int(node.get(name, 0) / amount + 1e-6) for name, amount in needs.items() if amount)


def _connect(address: str | None, cores: int | None) -> None:
    """Connect to a Ray cluster, or start a local one; if that fails, refuse within seconds and hide Ray's messages."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    import ray
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(
        sys.modules[__name__]
    )  # a worker can then unpickle run_cell without importing highway
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        local_options: dict[str, Any] = {"num_cpus": cores, "include_dashboard": False, "object_store_memory": OBJECTS}
        ray.init(address="local", **options, **local_options)
        return
    cluster = (os.environ.get("RAY_ADDRESS") or address) if address == "auto" else address
    host, colon, port = cluster.removeprefix("ray://").rpartition(":")
    try:
        if colon:
            socket.create_connection((host, int(port)), timeout=ANSWERS).close()
        ray.init(address=cluster, **options)
    except (OSError, ValueError, RuntimeError, SystemExit) as error:
        gave_up = isinstance(error, SystemExit)  # Ray exits the process when nothing answers
        why = "it does not answer" if gave_up else " ".join(str(error).split())
        raise Refused(f"hydra.launcher.address={address}: no Ray cluster could be joined there ({why}).") from None
