"""Send finished records that were not mirrored to Weights & Biases, and upload offline runs."""

import csv
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

from highway.report.collect import Collected
from highway.report.sample import Sample
from highway.run.mirror import Mirror


def unsent(collected: Collected, folder: Path) -> dict[Path, tuple[str, Sample]]:
    """Return the finished records of a table that were not mirrored, by their directory, each with the id of its row.

    A run that is a seed of several rows counts as one of the first of them.
    """
    waiting: dict[Path, tuple[str, Sample]] = {}
    for row in collected.table.rows:
        for sample in collected.finished(row.id):
            mirrored = [sample.directory / "wandb", folder / sample.name / "wandb"]
            if not any(path.exists() for path in mirrored):
                waiting.setdefault(sample.directory, (row.id, sample))
    return waiting


def send(collected: Collected, mode: str, project: str, folder: Path) -> int:
    """Send the records that are not mirrored as W&B runs, online or offline below `folder`; return how many."""
    waiting = unsent(collected, folder)
    for row, sample in waiting.values():
        experiment = collected.experiment(row)
        logger = experiment.logger.model_copy(update={"wandb": mode, "project": project})
        as_it_ran = experiment.model_copy(update={"seed": sample.seed, "logger": logger})
        name = f"{row} seed {sample.seed}"
        mirror = Mirror(as_it_ran, sample.name, folder / sample.name, collected.table.id, name)
        with open(sample.directory / "curves.csv", newline="") as file:
            points: list[dict[str, Any]] = sorted(csv.DictReader(file), key=lambda point: int(point["step"]))
        for _, together in groupby(points, key=lambda point: (point["step"], point["split"])):
            mirror(list(together))
        mirror.finish(sample.result)
    return len(waiting)


def offline_runs(folder: Path) -> list[Path]:
    """Return the runs that are not uploaded yet, oldest first, so that a resumed run extends its earlier part."""
    directories = [path for path in folder.rglob("offline-run-*") if path.is_dir()]
    waiting = [path for path in directories if not any(path.glob("*.synced"))]
    return sorted(waiting, key=lambda path: path.name)  # a name begins with the time at which the run started


def sync(folder: Path) -> bool:
    """Upload every offline run; return whether all were uploaded. The others wait for the next call."""
    waiting = offline_runs(folder)
    return not waiting or subprocess.run([sys.executable, "-m", "wandb", "sync", *map(str, waiting)]).returncode == 0
