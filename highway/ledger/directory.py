"""A run on disk: one experiment with one seed, and its directory.

outputs/cells/<model>-<hash12>/seed<k>/
    config.yaml  curves.csv  result.json  probes/  checkpoints/  log.txt  leases/  earlier/
"""

import os
import re
import shutil
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from highway.config import home
from highway.config.experiment import Experiment
from highway.ledger.files import made_folder, remove_leftovers, writing
from highway.ledger.identity import identified
from highway.ledger.lease import HeldLease, Lease, leased
from highway.ledger.record import leave_out, read_record

DONE = ("finished", "diverged")
CHECKPOINT = re.compile(r"resume-[0-9]{1,18}\.[0-9a-f]{16}\.ckpt")
SEED = re.compile(r"seed(0|[1-9][0-9]*)")
RECORD = ("result.json", "config.yaml", "curves.csv", "probes", "checkpoints")


@dataclass(frozen=True)
class RunDirectory:
    """The directory of a run; its status follows from the files in it."""

    path: Path

    @classmethod
    def of(cls, experiment: Experiment) -> "RunDirectory":
        """Return the run of an experiment, whether it exists on disk or not."""
        kind = "debug" if experiment.debug.scratch else "cells"
        return cls(experiment.outputs_dir / kind / identified(experiment) / f"seed{experiment.seed}")

    @property
    def name(self) -> str:
        return self.path.parent.name

    @property
    def id(self) -> str:
        """The name of the run, which its files carry: <model>-<hash12>/seed<k>."""
        return f"{self.name}/{self.path.name}"

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def log(self) -> Path:
        return self.path / "log.txt"

    @property
    def curves(self) -> Path:
        return self.path / "curves.csv"

    @property
    def checkpoints(self) -> list[Path]:
        """The checkpoints from which the run can resume, resume-<step>.<checksum>.ckpt, the newest first."""
        saved = (path for path in self.best.parent.glob("resume-*") if CHECKPOINT.fullmatch(path.name))
        return sorted(saved, key=step_of, reverse=True)

    @property
    def best(self) -> Path:
        return self.path / "checkpoints" / "best.safetensors"

    @property
    def last(self) -> Path:
        return self.path / "checkpoints" / "last.safetensors"

    @property
    def leases(self) -> Path:
        return self.path / "leases"

    def leased(self) -> AbstractContextManager[HeldLease]:
        """Hold the lease of the run, so that no other process with access to the folder can run it."""
        return leased(self.leases, self.id)

    def begin(self) -> None:
        """Remove what an earlier start left behind: its result and half-written files."""
        record = self.path / "result.json"
        with writing(self.path):
            if self.result() is None and record.exists():
                record.replace(record.with_name("result.corrupt.json"))  # for people to look at
            record.unlink(missing_ok=True)
            for folder in (self.path, self.best.parent, self.leases):
                remove_leftovers(folder)

    def clear(self) -> None:
        """Delete everything but the leases, of which the caller holds the last."""
        with writing(self.path):
            for path in self.path.iterdir():
                if path == self.leases:
                    continue
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()

    def set_aside(self) -> None:
        """Move a finished record into earlier/, so that the run can start afresh."""
        earlier = made_folder(self.path / "earlier")
        target = earlier / str(
            1 + max((int(path.name) for path in earlier.iterdir() if path.name.isdecimal()), default=0)
        )
        target.mkdir()
        for path in (self.path / name for name in RECORD):
            if path.exists():
                os.replace(path, target / path.name)

    def result(self) -> dict[str, Any] | None:
        """Return the content of result.json; None if it is missing or corrupt, and then the run is not finished."""
        return read_record(self.path / "result.json")

    @property
    def status(self) -> str:
        """The status: waiting, running, interrupted, failed, diverged or finished."""
        result = self.result()
        if result is not None and result["status"] in DONE:
            return str(result["status"])
        lease = Lease.latest(self.leases, self.id)
        if lease is not None and lease.alive:
            return "running"
        if result is not None:
            return str(result["status"])
        killed = lease is not None and not lease.ended
        return "interrupted" if killed or self.checkpoints else "waiting"

    @property
    def progress(self) -> dict[str, Any]:
        """The progress of a running run, from its lease."""
        lease = Lease.latest(self.leases, self.id)
        return lease.progress if lease is not None else {}

    @property
    def done(self) -> bool:
        """True if the run has finished or diverged: running it again would give the same result."""
        return self.status in DONE


def is_published(directory: RunDirectory) -> bool:
    """Return True if the published records have a run with this configuration and seed."""
    return RunDirectory(home.REFERENCE / "cells" / directory.id).done


def roots(outputs_dir: Path) -> list[Path]:
    """Return the folders of run directories: those of this machine, then the published ones."""
    return [outputs_dir / "cells", home.REFERENCE / "cells"]


def seed_directories(folder: Path) -> list[Path]:
    """Return the directories of a configuration's seeds. Log a warning for other names, such as `seed_old`."""
    try:
        names = [name for name in os.listdir(folder) if name.startswith("seed")]
    except (FileNotFoundError, NotADirectoryError):
        return []
    for name in sorted(names):
        if not SEED.fullmatch(name):
            leave_out(folder / name, "its name is not that of a seed, such as seed1; move it out of this folder")
    return [folder / name for name in sorted(names) if SEED.fullmatch(name)]


def step_of(checkpoint: Path) -> int:
    """Return the training step in the name of a checkpoint."""
    return int(checkpoint.name.split(".")[0].removeprefix("resume-"))
