"""hydra/launcher=slurm: trains each run in a Slurm job; submitit submits the jobs of a sweep in a few arrays.

Slurm sends SIGTERM before a job's time limit and before it pre-empts a job. Its runs then save checkpoints and exit
with 130; the job is requeued, and they resume after about two minutes. After `scancel` a job saves checkpoints and is
not requeued.
"""

import logging
import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, TypeVar

from highway.config.extras import need
from highway.errors import Refused
from highway.keys.schema import Text, Written, matching, number
from highway.ledger.lease import STALE
from highway.sweep.launcher import Job, Launcher
from highway.sweep.planned_run import Planned
from highway.sweep.process import SlurmRuns

log = logging.getLogger("highway")
T = TypeVar("T")
ASK_EVERY = 3.0  # seconds between two calls of squeue, each for all jobs
STOP_WITHIN = 120.0  # seconds for which a sweep waits for its cancelled jobs
LARGEST_ARRAY = 1000  # jobs; the default of Slurm's MaxArraySize is 1001
MARGIN = 60  # seconds by which Slurm may warn early

Name = Annotated[Text, matching(r"[\w.,:@+-]+", "a name of letters, digits and _ . , : @ + -")]

# Shell lines of the job after its runs have ended. A kill may be the fault of the node, or of the run; the latter would
# be requeued for ever, so the number of restarts after a kill is limited.
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
    per_gpu: int = number(1, 1)
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


class SlurmLauncher(Launcher):
    Settings = SlurmSettings
    settings: SlurmSettings
    spans_nodes = queues = True

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.threads = max(self.settings.cpus // self.settings.per_gpu, 1)

    def prepare(self, to_run: Sequence[Planned], in_sweep: int) -> int:
        need("submitit", "slurm", "hydra/launcher=slurm")
        if not (shutil.which("sbatch") and shutil.which("srun")):
            raise Refused(
                "hydra/launcher=slurm needs sbatch and srun, which this machine lacks: start it on a login node."
            )
        self.queue = Queue()
        jobs = self.settings.array_parallelism or in_sweep
        return min(jobs * self.settings.per_gpu, in_sweep)

    def start(self, to_run: Sequence[Planned]) -> Iterable[tuple[Planned, Job]]:
        """Submit an array for runs that need the same; a job has one run, or up to per_gpu runs of one device each."""
        for (nodes, devices, _), alike in groupby(sorted(to_run, key=_needs), key=_needs):
            size = self.settings.per_gpu if nodes * devices == 1 else 1
            for array in batched([*batched([*alike], size)], LARGEST_ARRAY):
                for job, runs in zip(self._submit(array), array, strict=True):
                    yield from ((planned, Submitted(planned, job, len(runs) > 1, self.queue)) for planned in runs)

    def threads_of(self, planned: Planned) -> int:
        alone = planned.trainer.nodes * planned.trainer.devices == 1
        return int(self.threads or 1) if alone else self.settings.cpus

    def _submit(self, jobs: Sequence[Sequence[Planned]]) -> list[str]:
        """Submit an array of jobs, each of these runs; return the number of each job."""
        from submitit import SlurmExecutor
        from submitit.core.utils import FailedJobError
        from submitit.helpers import clean_env

        executor = SlurmExecutor(folder=Path(self.config.outputs_dir).resolve() / "slurm")
        executor.update_parameters(**self._asked(jobs[0][0], len(jobs)))
        settings = {name: os.environ[name] for name in ("SLURM_CONF",) if name in os.environ}
        try:
            with clean_env(), executor.batch():  # a sweep that is a job itself must not pass its SLURM_ variables on
                os.environ.update(settings)
                submitted = [executor.submit(self._job(runs)) for runs in jobs]
        except FailedJobError as error:
            answer = " ".join(str(error).split())
            hint = ". Write trainer.accelerator=cpu to ask for no GPU" if "gres" in answer else ""
            raise Refused(f"Slurm refused the jobs: {answer}{hint}.") from error
        return [job.job_id for job in submitted]

    def _job(self, runs: Sequence[Planned]) -> SlurmRuns:
        environment = {"HIGHWAY_SLOTS": str(len(runs)), "OMP_NUM_THREADS": str(self.threads_of(runs[0]))}
        return SlurmRuns([*map(self.command, runs)], [run.directory.log.resolve() for run in runs], environment)

    def _asked(self, planned: Planned, jobs: int) -> dict[str, Any]:
        """Return the options of sbatch for an array of so many jobs with the needs of this run, by submitit's names."""
        settings = self.settings
        options = {
            "job_name": "highway",
            "partition": settings.partition,
            "account": settings.account,
            "qos": settings.qos,
            "nodes": planned.trainer.nodes,
            "ntasks_per_node": planned.trainer.devices,
            "gpus_per_node": planned.trainer.devices if planned.trainer.accelerator != "cpu" else None,
            "cpus_per_task": settings.cpus,
            "mem": f"{int(settings.memory_gb * 1024)}M" if settings.memory_gb else None,
            "time": settings.minutes,
            "array_parallelism": settings.array_parallelism or jobs,
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
        self.unwanted: set[str] = set()
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
            subprocess.run(["scancel", *sorted(self.unwanted)], capture_output=True, check=False)
            self.unwanted, self.leave_at = set(), time.monotonic() + STOP_WITHIN


class Submitted:
    """A run in a Slurm job, from submission to end; its run directory tells how it ended."""

    def __init__(self, planned: Planned, number: str, shares: bool, queue: Queue) -> None:
        """shares: other runs are in the same job, which may go on when this run has ended."""
        self.planned, self.number, self.shares, self.queue = planned, number, shares, queue
        self.submitted = self.seen = time.monotonic()
        self.looked = 0.0

    def poll(self) -> int | None:
        if self._is_queued() and not (self.shares and self._has_ended()):
            return None
        status = self.planned.directory.status
        if status == "running" and time.monotonic() - self.seen <= STALE + ASK_EVERY:
            return None  # killed on another machine: the run counts as running until its lease is stale
        return int(status != "finished")

    def terminate(self) -> None:
        self.queue.unwanted.add(self.number)

    def wait(self) -> None:
        self.queue.cancel()
        while self._is_queued() and time.monotonic() < self.queue.leave_at:
            time.sleep(0.2)

    def _is_queued(self) -> bool:
        queued = self.queue.holds(self.number, self.submitted)
        if queued:
            self.seen = time.monotonic()
        return queued

    def _has_ended(self) -> bool:
        """Look into the run directory, as often as squeue is asked: there may be thousands of runs."""
        if self.looked == self.queue.asked:
            return False
        self.looked = self.queue.asked
        return self.planned.next_move() == "leave"


def _needs(planned: Planned) -> tuple[int, int, bool]:
    """Return the resources by which runs are grouped: all jobs of an array ask for the same."""
    return planned.trainer.nodes, planned.trainer.devices, planned.trainer.accelerator == "cpu"


def batched(entries: Sequence[T], size: int) -> list[Sequence[T]]:
    """Cut a list into lists of `size` entries; the last may be shorter."""
    return [entries[first : first + size] for first in range(0, len(entries), size)]
