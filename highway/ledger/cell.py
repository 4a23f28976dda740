"""A cell: one experiment with one seed, and its directory.

outputs/cells/<model>-<hash12>/seed<k>/
    config.yaml  curves.csv  result.json  probes/  checkpoints/  log.txt  leases/  earlier/
"""

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from highway.config.experiment import Experiment
from highway.ledger.files import made_folder, remove_leftovers, writing
from highway.ledger.identity import identified
from highway.ledger.lease import HeldLease, Lease, leased
from highway.ledger.record import intact

DONE = ("finished", "diverged")
RECORD = ("result.json", "config.yaml", "curves.csv", "probes", "checkpoints")


@dataclass(frozen=True)
class Cell:
    directory: Path

    @classmethod
    def of(cls, experiment: Experiment) -> "Cell":
        kind = "debug" if experiment.debug.scratch else "cells"
        return cls(experiment.outputs_dir / kind / identified(experiment) / f"seed{experiment.seed}")

    @property
    def name(self) -> str:
        return self.directory.parent.name

    @property
    def config(self) -> Path:
        return self.directory / "config.yaml"

    @property
    def log(self) -> Path:
        return self.directory / "log.txt"

    @property
    def curves(self) -> Path:
        return self.directory / "curves.csv"

    @property
    def checkpoints(self) -> list[Path]:
        """What a run can go on from: resume-<step>.<checksum>.ckpt, the newest first."""
        return sorted((self.directory / "checkpoints").glob("resume-*.*.ckpt"), key=step_of, reverse=True)

    @property
    def best(self) -> Path:
        return self.directory / "checkpoints" / "best.safetensors"

    @property
    def last(self) -> Path:
        return self.directory / "checkpoints" / "last.safetensors"

    @property
    def leases(self) -> Path:
        return self.directory / "leases"

    def leased(self) -> AbstractContextManager[HeldLease]:
        """Only one process at a time runs a cell, on this machine or on another that shares the folder."""
        return leased(self.leases)

    def begin(self) -> None:
        """What an earlier start left behind that this one would contradict: how it ended, files half written."""
        record = self.directory / "result.json"
        with writing(self.directory):
            if self.result() is None and record.exists():
                record.replace(record.with_name("result.damaged.json"))  # for people to look at
            record.unlink(missing_ok=True)
            for folder in (self.directory, self.best.parent, self.leases):
                remove_leftovers(folder)

    def set_aside(self) -> None:
        """Keep a finished record in earlier/, and let the cell be run anew."""
        earlier = made_folder(self.directory / "earlier")
        place = earlier / str(1 + max((int(path.name) for path in earlier.iterdir()), default=0))
        place.mkdir()
        for path in (self.directory / name for name in RECORD):
            if path.exists():
                os.replace(path, place / path.name)

    def result(self) -> dict[str, Any] | None:
        """What result.json says; a damaged one says nothing, and the cell is not finished."""
        return intact(self.directory / "result.json")

    @property
    def status(self) -> str:
        """waiting, running, interrupted, failed, diverged or finished."""
        result = self.result()
        if result is not None and result["status"] in DONE:
            return result["status"]
        lease = Lease.latest(self.leases)
        if lease is not None and lease.alive:
            return "running"
        if result is not None:
            return result["status"]
        killed = lease is not None and not lease.ended
        return "interrupted" if killed or self.checkpoints else "waiting"

    @property
    def progress(self) -> dict[str, Any]:
        """How far a running cell is, as its lease says."""
        lease = Lease.latest(self.leases)
        return lease.progress if lease is not None else {}

    @property
    def done(self) -> bool:
        """Nothing is left to run: a second run would give the same again."""
        return self.status in DONE


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.split(".")[0].removeprefix("resume-"))
