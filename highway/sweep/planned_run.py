"""A run of a sweep, as it is planned, started, shown and summed up."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from highway.config.experiment import Experiment
from highway.config.trainer import Trainer
from highway.ledger.directory import DONE, RunDirectory

EXIT_REFUSED = 2  # the exit code of a run that was refused, for example because another process trains it


@dataclass(frozen=True)
class Planned:
    """A run of a sweep: the overrides that start it, its directory, and what they describe."""

    label: str
    overrides: tuple[str, ...]
    directory: RunDirectory
    experiment: Experiment = field(compare=False)
    before: str = "waiting"  # status when the sweep began; a run that had failed is planned only with retry_failed=true

    @property
    def trainer(self) -> Trainer:
        return self.experiment.trainer

    def next_move(self) -> Literal["start", "wait", "leave"]:
        """Decide what to do now. wait: another process is training it. leave: it has ended since the sweep began."""
        status = self.directory.status
        if status == "running":
            return "wait"
        return "leave" if status in DONE or (status == "failed" and self.before != "failed") else "start"


def last_line(path: Path) -> str:
    """Return the last line of a log, with its path."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except FileNotFoundError:
        lines = []
    return f"{lines[-1]} ({path})" if lines else str(path)
