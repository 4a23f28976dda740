"""Upload offline W&B runs, oldest first, so that a resumed run extends its earlier part."""

import subprocess
import sys
from pathlib import Path


def offline_runs(folder: Path) -> list[Path]:
    """Return the runs that are not uploaded yet, oldest first; their names begin with the time of their start."""
    directories = [path for path in folder.rglob("offline-run-*") if path.is_dir()]
    waiting = [path for path in directories if not any(path.glob("*.synced"))]
    return sorted(waiting, key=lambda path: path.name)


def sync(folder: Path) -> bool:
    """Upload every offline run; return whether all were uploaded. The others wait for the next call."""
    waiting = offline_runs(folder)
    return not waiting or subprocess.run([sys.executable, "-m", "wandb", "sync", *map(str, waiting)]).returncode == 0
