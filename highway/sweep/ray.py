"""hydra/launcher=ray: trains each run as a task on a Ray cluster.

The cluster is an existing one, or a local one that lasts as long as the sweep. A task starts the run's command as a
process and waits for it. When Ray loses the worker, the process saves a checkpoint and stops, and Ray restarts the
task. Ray notices the loss of a node after up to a minute. A task that finds the process still saving is refused, and
started again when the run is free.
"""

import os
import socket
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from typing import Any

from highway.config.extras import need
from highway.config.project import SETTING, project
from highway.errors import Refused
from highway.keys.schema import Written, number
from highway.ledger.files import append_text, made_folder
from highway.sweep.launcher import Job, Launcher
from highway.sweep.planned_run import Planned
from highway.sweep.process import ray_task

ANSWERS = 10.0  # seconds within which a cluster must answer; Ray itself tries for two minutes
INTERRUPTED = 130
OBJECTS = 100 * 2**20  # bytes of object store in a local cluster; our tasks return only exit codes
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # the default of later versions; without it this version warns
}


class Task:
    """A run as a Ray task."""

    def __init__(self, planned: Planned, reference: Any) -> None:
        self.planned, self.reference = planned, reference

    def poll(self) -> int | None:
        import ray
        from ray.exceptions import RayError, RayTaskError, TaskCancelledError

        if not ray.wait([self.reference], timeout=0)[0]:
            return None
        try:
            code: int = ray.get(self.reference)
            return code
        except TaskCancelledError:
            return INTERRUPTED
        except RayTaskError as error:
            why = f"the Ray worker could not start the run: {error.cause}"
        except RayError as error:
            why = f"Ray lost the run, after every retry: {type(error).__name__}"
        made_folder(self.planned.directory.path)
        append_text(self.planned.directory.log, " ".join(why.split()) + "\n")
        return 1

    def terminate(self) -> None:
        import ray

        ray.cancel(self.reference)  # Ray does not restart a cancelled task

    def wait(self) -> None:
        import ray

        ray.wait([self.reference])


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


class RayLauncher(Launcher):
    Settings = RaySettings
    settings: RaySettings
    queues = True

    def __init__(self, **given: Any) -> None:
        need("ray", "ray", "hydra/launcher=ray")
        super().__init__(**given)
        self.threads = self.settings.num_cpus

    def launch_runs(self, to_run: Sequence[Planned], in_sweep: int, fail_fast: bool) -> None:
        import ray

        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):  # Ray prints warnings of its nodes on stdout
            _connect(self.settings.address, self.settings.cores)
            try:
                super().launch_runs(to_run, in_sweep, fail_fast)
            finally:
                ray.shutdown()

    def prepare(self, to_run: Sequence[Planned], in_sweep: int) -> int:
        import ray

        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        self.on_gpus = any(node.get("GPU") for node in nodes)
        if not self.on_gpus and any(run.trainer.accelerator == "gpu" for run in to_run):
            raise Refused(
                "trainer.accelerator=gpu is set, but the Ray cluster has no GPU. Write trainer.accelerator=cpu instead."
            )
        for run in to_run:
            if not any(_room(node, self.needs(run)) for node in nodes):
                needed = " and ".join(f"{amount:g} {name}" for name, amount in self.needs(run).items() if amount)
                raise Refused(f"{run.label} needs {needed}, but no node of the Ray cluster has that much.")
        self.at_once = min(sum(_room(node, self.needs(to_run[0])) for node in nodes), in_sweep)
        return self.at_once

    def needs(self, planned: Planned) -> dict[str, float]:
        """Return the CPUs and GPUs of a run as Ray counts them: shares of a GPU are multiples of 1/10,000."""
        gpus, devices = 0.0, planned.trainer.devices
        if self.on_gpus and planned.trainer.accelerator != "cpu":
            gpus = devices if devices > 1 else 10_000 // self.settings.per_gpu / 10_000
        return {"CPU": self.settings.num_cpus * devices, "GPU": gpus}

    def start(self, to_run: Sequence[Planned]) -> Iterable[tuple[Planned, Job]]:
        import ray

        environment = {"HIGHWAY_SLOTS": str(self.at_once), "OMP_NUM_THREADS": str(self.threads)}
        if own := project():
            environment[SETTING] = str(own.folder)
        for planned in to_run:
            needs = self.needs(planned)
            task = ray.remote(num_cpus=needs["CPU"], num_gpus=needs["GPU"], max_retries=self.settings.retries)(ray_task)
            reference = task.remote(self.command(planned), planned.directory.log.resolve(), environment)
            yield planned, Task(planned, reference)


def _room(node: dict[str, float], needs: dict[str, float]) -> int:
    """Return how many runs with these needs fit on an empty node."""
    return min(int(node.get(name, 0) / amount + 1e-6) for name, amount in needs.items() if amount)


def _connect(address: str | None, cores: int | None) -> None:
    """Connect to a Ray cluster, or start a local one; if that fails, refuse within seconds and hide Ray's messages."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    import ray

    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        ray.init(address="local", num_cpus=cores, include_dashboard=False, object_store_memory=OBJECTS, **options)
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
