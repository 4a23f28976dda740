"""Outputs with a few records, and changes of them between two reports."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from highway.report.collect import collect
from tests.support.tables import TABLE, put

Change = Callable[[Path], object]


def seed_folder(outputs: Path, row_id: str, seed: int) -> Path:
    return collect(TABLE, "paper", outputs).samples[row_id][seed - 1].directory


def changed_in_place(outputs: Path) -> None:
    """Corrupt a curve, with size and time of change as they were."""
    path = seed_folder(outputs, "tanh", 1) / "curves.csv"
    about, content = path.stat(), path.read_bytes()
    with open(path, "r+b") as file:
        file.write(content.replace(b"1", b"2", 1))
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


CHANGES: dict[str, Change] = {
    "nothing": lambda outputs: None,
    "added": lambda outputs: put(outputs, "sigmoid", 3, 1.5),
    "changed": lambda outputs: put(outputs, "tanh", 1, 1.1),
    "corrupt": changed_in_place,
    "removed": lambda outputs: shutil.rmtree(seed_folder(outputs, "baseline", 2)),
    "figure removed": lambda outputs: next((outputs / "report").rglob("*.svg")).unlink(),
    "figure changed": lambda outputs: next((outputs / "report").rglob("*.png")).write_text("another"),
}


def prepared(outputs: Path) -> None:
    for row_id, value in (("baseline", 1.4), ("tanh", 1.3), ("sigmoid", 1.35)):
        for seed in (1, 2):
            put(outputs, row_id, seed, value + seed / 100)
