"""Processes that hold a lease, or race for one. They import little, since tests start many."""

import os
import subprocess
import sys
import threading
from pathlib import Path

from highway.errors import Refused
from highway.ledger.lease import leased
from tests.support.commands import ROOT

HOLD = "import sys, time; from pathlib import Path; from highway.ledger.lease import leased\n"
HOLD += "with leased(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"


def holder(folder: Path, **environment: str) -> "subprocess.Popen[str]":
    """Start another process, which holds the lease of a run."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    with process.stdout as output:  # type: ignore[union-attr]
        assert output.readline() == "held\n"
    return process


def race(folder: Path, won: Path, meet: "threading.Barrier") -> None:
    """Try to take a lease at the same moment as others; a winner writes the name of its lease into the folder `won`."""
    meet.wait(60)
    try:
        with leased(folder) as held:
            (won / str(os.getpid())).write_text(held.path.name)
            meet.wait(60)
    except Refused:
        meet.wait(60)
