"""Uploading offline runs, the oldest first, so that the later ones of a cell extend its earlier ones."""

import subprocess
import sys
from pathlib import Path


def offline_runs(folder: Path) -> list[Path]:
    """Those that are not uploaded yet, by when they began; their names begin with it."""
    found = [path for path in folder.rglob("offline-run-*") if path.is_dir()]
    waiting = [path for path in found if not any(path.glob("*.synced"))]
    return sorted(waiting, key=lambda path: path.name)


def sync(folder: Path) -> bool:
    """Whether all were uploaded; those that were not wait for the next time."""
    waiting = offline_runs(folder)
    return not waiting or subprocess.run([sys.executable, "-m", "wandb", "sync", *map(str, waiting)]).returncode == 0
