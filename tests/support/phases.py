"""The phases of a run, as the files in its directory tell them; tests of clusters lose a node in each."""

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from highway.ledger.directory import RunDirectory
from highway.ledger.lease import Lease
from highway.testing.runs import curve, same_weights
from tests.support.overrides import TINY
from tests.support.waiting import wait_for

RUNS = (*TINY, "gate=none,sdu_tanh", "trainer.max_steps=400", "trainer.validate_every=100")
PHASES: dict[str, Callable[[RunDirectory], bool]] = {
    "before the first step": lambda directory: directory.status == "running",
    "before the first checkpoint": lambda directory: directory.status == "running" and bool(directory.progress),
    "between checkpoints": lambda directory: bool(directory.checkpoints),
    "after a validation": lambda directory: directory.best.exists(),
    "in the evaluation": lambda directory: directory.last.exists(),
}

WITH_FAULTS = pytest.mark.skipif(
    os.environ.get("HIGHWAY_FAULTS") != "yes", reason="takes ten minutes: HIGHWAY_FAULTS=yes make test-slurm test-ray"
)


PATIENCE = 1800.0  # seconds for a sweep on a machine that is busy with twenty other programs


def caught(folder: Path, phase: str, sweep: "subprocess.Popen[str]") -> int:
    """Wait until a run of a sweep is in a phase, and stop its process there; return the process."""
    pids: list[int] = []

    def one_is_there() -> bool:
        assert sweep.poll() is None, sweep.communicate()[1]
        for run in map(RunDirectory, sorted(folder.glob("cells/*/*"))):
            if PHASES[phase](run) and (pid := holder(run)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                    pids.append(pid)
                    return True
        return False

    wait_for(one_is_there, PATIENCE)
    return pids[0]


def holder(directory: RunDirectory) -> int | None:
    """Return the process that holds a run, or None."""
    lease = Lease.latest(directory.leases, directory.id)
    return lease.content.get("pid") if lease is not None and lease.alive else None


def as_if_undisturbed(folder: Path, calm: Path) -> bool:
    """Compare all runs of two folders of outputs: weights bit for bit, curves row for row."""
    pairs = [(RunDirectory(path), RunDirectory(folder / path.relative_to(calm))) for path in calm.glob("cells/*/*")]
    return bool(pairs) and all(
        ours.status == "finished"
        and same_weights(whole.last, ours.last)
        and same_weights(whole.best, ours.best)
        and curve(whole) == curve(ours)
        for whole, ours in pairs
    )
