"""Uploading offline runs: one after the other, each cell's oldest first, so that later ones extend earlier ones."""

import subprocess
import sys
from pathlib import Path


def offline_runs(folder: Path) -> list[Path]:
    """Those that are not uploaded yet, by when they began; their names begin with it."""
    found = [path for path in folder.rglob("offline-run-*") if path.is_dir()]
    waiting = [path for path in found if not any(path.glob("*.synced"))]
    return sorted(waiting, key=lambda path: path.name)


def sync(folder: Path) -> int:
    """How many could not be uploaded; those wait for the next time."""
    failed = 0
    for path in offline_runs(folder):
        print(path, flush=True)
        command = [sys.executable, "-m", "wandb", "sync", "--append", str(path)]
        failed += subprocess.run(command).returncode != 0
    return failed
