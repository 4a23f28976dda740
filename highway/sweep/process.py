"""A run as a process: started here, in a Slurm job, or in a Ray worker.

Jobs and workers import this module from scratch, so it imports nothing slow.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from highway.ledger.lease import SWEEP

STOPPED = (128 + signal.SIGINT, 128 + signal.SIGTERM)  # exit codes of a run that was asked to stop
KILLED = 128 + signal.SIGKILL
POLL_EVERY = 0.1  # seconds between two looks at the processes of a job


def start_process(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """Start a run, which appends to its log. It saves and stops by itself if the process that called this is gone."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **environment, SWEEP: str(os.getpid())},
            start_new_session=True,  # Ctrl-C in a terminal then reaches only the sweep, which stops its runs
        )


@dataclass(frozen=True)
class SlurmRuns:
    """The runs of one Slurm job, which unpickles and calls this: commands, logs, and what to add to the environment."""

    commands: list[list[str]]
    logs: list[Path]
    environment: dict[str, str]

    def __call__(self) -> None:
        """Start every run, pass SIGTERM on to all, and exit when all have ended; a single run replaces this process."""
        if len(self.commands) == 1:
            become(self.commands[0], self.logs[0], self.environment)
        asked_to_stop: list[int] = []
        signal.signal(signal.SIGTERM, lambda number, _: asked_to_stop.append(number))
        processes = [
            start_process(command, log, self.environment) for command, log in zip(self.commands, self.logs, strict=True)
        ]
        while any(process.poll() is None for process in processes):
            if asked_to_stop:
                asked_to_stop.clear()
                for process in processes:
                    process.terminate()
            time.sleep(POLL_EVERY)
        sys.exit(job_code([process.returncode for process in processes]))


def become(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
    """Replace this process by a run: srun then sees it, signals it, and starts it beside the others of its run."""
    log.parent.mkdir(parents=True, exist_ok=True)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.execve(command[0], list(command), {**os.environ, **environment})


def job_code(returncodes: Sequence[int]) -> int:
    """Return 130, 143 or 137 if a run ended with it, so that Slurm requeues the job of several; else the largest."""
    codes = [code if code >= 0 else 128 - code for code in returncodes]
    return next((code for code in (*STOPPED, KILLED) if code in codes), max(codes))


def ray_task(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> int:
    """Train a run as a process of a Ray worker, and return its exit code. The run saves when the task is cancelled."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's & ignores SIGINT, and children inherit that
    node = os.getppid()
    process = start_process(command, log, environment)
    while True:
        try:
            while process.poll() is None:
                if os.getppid() != node:
                    os._exit(1)  # the node is lost: without this worker the run saves and stops, and resumes elsewhere
                time.sleep(POLL_EVERY)
            return process.returncode
        except KeyboardInterrupt:  # Ray cancels a task with it, perhaps several times
            process.terminate()
