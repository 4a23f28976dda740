"""hydra/launcher=slurm: trains each run as a Slurm job; submitit submits the jobs of a sweep in a few arrays.

Slurm sends SIGTERM before a job's time limit and before it pre-empts a job. The run then saves a checkpoint
and exits with 130; the job is requeued and resumes. After `scancel` a job saves a checkpoint and is not requeued.
"""

import logging
import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from highway.config.extras import need
from highway.config.keys import Text, Written, matching, number
from highway.errors import Refused
from highway.ledger.lease import STALE
from highway.sweep.launcher import EngineLauncher, Job, Planned
from highway.sweep.submitted import Becomes

log = logging.getLogger("highway")
ASK_EVERY = 3.0  # seconds between two calls of squeue, each for all jobs
STOP_WITHIN = 120.0  # seconds for which a sweep waits for its cancelled jobs
LARGEST_ARRAY = 1000  # jobs; the default of Slurm's MaxArraySize is 1001
MARGIN = 60  # seconds by which Slurm may warn early

Name = Annotated[Text, matching(r"[\w.,:@+-]+", "a name of letters, digits and _ . , : @ + -")]

# Runs in the job after the run's command. A kill may be the fault of the node, or of the run; the latter would be
# requeued for ever, so the number of restarts after a kill is limited.
AGAIN = """code=$? again=no
case $code in
130 | 143) again=yes ;; # asked to stop, and saved
137) [ "${{SLURM_RESTART_COUNT:-0}}" -lt {kills} ] && again=yes ;; # killed
esac
if [ "$again" = yes ] && [ "$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T)" = RUNNING ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit $code"""


class SlurmSettings(Written):
    partition: Name | None = None
    account: Name | None = None
    qos: Name | None = None
    cpus: int = number(4, 1)
    memory_gb: float | None = number(None, 0.001)
    minutes: int = number(720, 1)
    warn_seconds: int = number(120, 1)
    array_parallelism: int | None = number(None, 1)
    kills: int = number(3, 0)
    setup_lines: list[str] = []
    parameters: dict[str, Any] = {}

    def check(self) -> None:
        if self.minutes * 60 <= self.warn_seconds + MARGIN:
            raise Refused(
                f"hydra.launcher.minutes={self.minutes} leaves no time to train: Slurm asks a run to save "
                f"hydra.launcher.warn_seconds={self.warn_seconds} before the end, or up to {MARGIN} seconds earlier. "
                "Raise minutes, or lower warn_seconds."
            )
        for name, value in self.parameters.items():
            if "\n" in f"{name}{value}":
                raise Refused(f"hydra.launcher.parameters: {name!r} has a line break. Write each option by itself.")


class SlurmLauncher(EngineLauncher):
    Settings = SlurmSettings
    settings: SlurmSettings
    spans_nodes = queues = True

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.threads = self.settings.cpus

    def prepare(self, to_run: Sequence[Planned], planned: int) -> int:
        need("submitit", "slurm", "hydra/launcher=slurm")
        if not (shutil.which("sbatch") and shutil.which("srun")):
            raise Refused(
                "hydra/launcher=slurm needs sbatch and srun, which this machine lacks: start it on a login node."
            )
        self.queue = Queue()
        return min(self.settings.array_parallelism or planned, planned)

    def start(self, to_run: Sequence[Planned]) -> Iterable[tuple[Planned, Job]]:
        for _, alike in groupby(sorted(to_run, key=_needs), key=_needs):
            same = list(alike)
            for first in range(0, len(same), LARGEST_ARRAY):
                yield from self._submit(same[first : first + LARGEST_ARRAY]).items()

    def _submit(self, to_run: Sequence[Planned]) -> dict[Planned, Job]:
        from submitit import SlurmExecutor
        from submitit.core.utils import FailedJobError
        from submitit.helpers import clean_env

        executor = SlurmExecutor(folder=Path(self.config.outputs_dir).resolve() / "slurm")
        executor.update_parameters(**self._asked(to_run[0], len(to_run)))
        kept = {name: os.environ[name] for name in ("SLURM_CONF",) if name in os.environ}
        try:
            with clean_env(), executor.batch():  # a sweep that is a job itself must not pass its SLURM_ variables on
                os.environ.update(kept)
                submitted = [
                    executor.submit(Becomes(self.command(run), run.directory.log.resolve(), self.threads))
                    for run in to_run
                ]
        except FailedJobError as error:
            answer = " ".join(str(error).split())
            hint = ". Write trainer.accelerator=cpu to ask for no GPU" if "gres" in answer else ""
            raise Refused(f"Slurm refused the jobs: {answer}{hint}.") from error
        numbers = [job.job_id for job in submitted]
        return {run: Submitted(run, number, self.queue) for run, number in zip(to_run, numbers, strict=True)}

    def _asked(self, planned: Planned, to_run: int) -> dict[str, Any]:
        """Return the options of sbatch, under submitit's names."""
        settings = self.settings
        options = {
            "job_name": "highway",
            "partition": settings.partition,
            "account": settings.account,
            "qos": settings.qos,
            "nodes": planned.nodes,
            "ntasks_per_node": planned.devices,
            "gpus_per_node": planned.devices if planned.accelerator != "cpu" else None,
            "cpus_per_task": settings.cpus,
            "mem": f"{int(settings.memory_gb * 1024)}M" if settings.memory_gb else None,
            "time": settings.minutes,
            "array_parallelism": settings.array_parallelism or to_run,
            "setup": list(settings.setup_lines),
            "teardown": AGAIN.format(kills=settings.kills).splitlines(),
            # since Slurm 22.05 srun does not inherit --cpus-per-task from sbatch
            "srun_args": [f"--cpus-per-task={settings.cpus}", "--kill-on-bad-exit=1"],
            "additional_parameters": {
                "signal": f"TERM@{settings.warn_seconds}",
                "requeue": True,
                **settings.parameters,
            },
        }
        return {name: value for name, value in options.items() if value is not None}


class Queue:
    """A view of Slurm's queue, read for all jobs at once; while squeue fails, every job counts as still queued."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}  # number of a queued job -> why it does not run; "None" if it does
        self.held: set[str] = set()  # jobs of which it was said that Slurm holds them
        self.asked = self.answered = -ASK_EVERY
        self.unwanted: list[str] = []
        self.leave_at = float("inf")

    def holds(self, number: str, since: float) -> bool:
        """Return True if a job submitted at `since` is still queued or running, as far as squeue has said."""
        if time.monotonic() - self.asked >= ASK_EVERY:
            self.asked = time.monotonic()
            command = ["squeue", "--me", "--noheader", "--array", "--format=%i %r"]
            listed = subprocess.run(command, capture_output=True, text=True, check=False)
            if listed.returncode == 0:
                lines = [line.strip().partition(" ") for line in listed.stdout.splitlines()]
                self.reasons, self.answered = {number: reason for number, _, reason in lines}, self.asked
        if "held" in self.reasons.get(number, "").lower() and number not in self.held:
            self.held.add(number)
            log.warning(
                "Slurm holds job %s (%s). Type `scontrol release %s` to let it start.",
                *(number, self.reasons[number], number),
            )
        return number in self.reasons or self.answered <= since

    def cancel(self) -> None:
        """Cancel all unwanted jobs with one call; some may have ended by themselves."""
        if self.unwanted:
            subprocess.run(["scancel", *self.unwanted], capture_output=True, check=False)
            self.unwanted, self.leave_at = [], time.monotonic() + STOP_WITHIN


class Submitted:
    """A Slurm job from submission to end; its run directory tells how it ended."""

    def __init__(self, planned: Planned, number: str, queue: Queue) -> None:
        self.planned, self.number, self.queue = planned, number, queue
        self.submitted = self.seen = time.monotonic()

    def poll(self) -> int | None:
        if self._is_queued():
            return None
        status = self.planned.directory.status
        if status == "running" and time.monotonic() - self.seen <= STALE + ASK_EVERY:
            return None  # killed on another machine: the run counts as running until its lease is stale
        return int(status != "finished")

    def stop(self) -> None:
        self.queue.unwanted.append(self.number)

    def wait(self) -> None:
        self.queue.cancel()
        while self._is_queued() and time.monotonic() < self.queue.leave_at:
            time.sleep(0.2)

    def _is_queued(self) -> bool:
        queued = self.queue.holds(self.number, self.submitted)
        if queued:
            self.seen = time.monotonic()
        return queued


def _needs(planned: Planned) -> tuple[int, int, bool]:
    """Return the resources by which runs are grouped: all jobs of an array ask for the same."""
    return planned.nodes, planned.devices, planned.accelerator == "cpu"
