"""Start sweeps as a user types them, or in this process, and find what they left behind."""

import io
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from highway.cli import main
from highway.config.compose import experiment
from highway.ledger.directory import RunDirectory
from highway.sweep.planned_run import Planned
from tests.support.commands import typed


def sweep(folder: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    """Run `highway train -m` with these words and this folder of outputs; return the finished process."""
    return typed("train", "-m", *overrides, HIGHWAY_OUTPUTS=str(folder))


def inline(monkeypatch: pytest.MonkeyPatch, folder: Path, *overrides: str) -> tuple[int, str]:
    """Run a sweep in this process; return the exit code and the messages."""
    heard = logging.StreamHandler(output := io.StringIO())
    monkeypatch.setattr(sys, "argv", ["train.py", "-m", "hydra/launcher=inline", *overrides])
    monkeypatch.setenv("HIGHWAY_OUTPUTS", str(folder))
    logging.getLogger("highway").addHandler(heard)
    try:
        main("train")
        return 0, output.getvalue()
    except SystemExit as end:
        return int(end.code or 0), output.getvalue()
    finally:
        logging.getLogger("highway").removeHandler(heard)


def results(folder: Path) -> list[Path]:
    """Return the records of all runs below a folder of outputs."""
    return sorted(folder.glob("cells/*/seed*/result.json"))


def directories(folder: Path) -> list[RunDirectory]:
    """Return all runs below a folder of outputs, finished or not."""
    return [RunDirectory(path) for path in sorted(folder.glob("cells/*/seed*"))]


def planned_run(directory: Path, label: str = "run", overrides: tuple[str, ...] = (), **trainer: Any) -> Planned:
    """Plan a run in this directory; it is on one CPU, unless settings of the trainer say otherwise."""
    described = experiment([])
    settings = described.trainer.model_copy(update={"accelerator": "cpu", **trainer})
    return Planned(label, overrides, RunDirectory(directory), described.model_copy(update={"trainer": settings}))
