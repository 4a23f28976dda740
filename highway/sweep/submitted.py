"""What a job of Slurm does: it becomes the command of its cell. Read in the job, so it imports nothing of ours."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Becomes:
    """The command takes the place of the process that called it: every signal of Slurm's reaches it, and its exit
    code is the job's."""

    command: list[str]
    log: Path
    threads: int

    def __call__(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        output = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.execve(self.command[0], self.command, {**os.environ, "OMP_NUM_THREADS": str(self.threads)})
