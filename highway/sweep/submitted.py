"""The function that submitit runs in a Slurm job. The job unpickles it, so this module imports nothing of highway."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Becomes:
    """A call that replaces the job's process with the command of a run: the command gets every signal from Slurm, and
    its exit code is the job's."""

    command: list[str]
    log: Path
    threads: int

    def __call__(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        output = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.execve(self.command[0], self.command, {**os.environ, "OMP_NUM_THREADS": str(self.threads)})
