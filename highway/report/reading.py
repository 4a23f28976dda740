"""Reads records once: a record whose files have kept their signatures since is taken from what was kept of it."""

import time
from pathlib import Path
from typing import Any

from highway.files.kept import Kept, settled, signatures
from highway.ledger.directory import seed_directories
from highway.ledger.record import read_record

RECORD = "result.json"


def results(directory: Path, kept: Kept) -> list[tuple[Path, dict[str, Any]]]:
    """Return the valid records of a configuration's seeds, each with its directory."""
    name, key = kept_name("records", directory), str(directory)
    folders = seed_directories(directory)
    before = (kept.read(name, key) or {}) if folders else {}
    entries: dict[str, Any] = {}
    for folder in folders:
        entry = before.get(folder.name)
        if entry is None or signatures(folder, entry["files"]) != entry["files"]:
            entry = _read(folder)
        entries[folder.name] = entry
    lasting = {seed: entry for seed, entry in entries.items() if entry["files"]}
    if lasting != before:
        kept.write(name, key, lasting)
    return [(folder, result) for folder in folders if (result := entries[folder.name]["result"])]


def kept_name(kind: str, directory: Path) -> str:
    """Return the name under which something is kept about a configuration's directory, here or among the published."""
    return f"{kind}/{directory.parents[1].name}/{directory.name}"


def _read(folder: Path) -> dict[str, Any]:
    """Read and check a record. Without `files`, it may change unnoticed and is not kept."""
    began = time.time_ns()
    result = read_record(folder / RECORD)
    signed = signatures(folder, [RECORD, *result["files"]]) if result else {}
    return {"files": signed if settled(signed, began) else {}, "result": result}
