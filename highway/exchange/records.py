"""Export and import records as one small file, to run a table on one machine and read it on another.

The file is a .tar.gz of <run>/seed<k>/{config.yaml, curves.csv, result.json, probes/*.npz}, without checkpoints. The
same records give the same bytes. An import never replaces a record by one that ended worse.
"""

import gzip
import hashlib
import io
import json
import re
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

from highway.errors import Corrupt, Refused
from highway.exchange import admission
from highway.files import seal
from highway.files.archive import BROKEN, tarred
from highway.files.writing import written_atomically
from highway.ledger.directory import DONE, RunDirectory
from highway.ledger.record import problem
from highway.report.collect import collect
from highway.report.sample import Sample
from highway.sweep.grid import left_out
from highway.sweep.table import Table

MEMBER = re.compile(
    r"(?P<run>[\w-]+-[0-9a-f]{12}/seed\d+)/(config\.yaml|curves\.csv|result\.json|probes/\w+\.npz)", re.ASCII
)
RANKS = ("waiting", "running", "interrupted", "paused", "dropped", "failed", "diverged", "finished")
LARGEST = 64 << 20  # bytes of one member; records are small, and an archive may be malicious
TOTAL = 512 << 20  # bytes of all members


@dataclass(frozen=True)
class Imported:
    """The runs of an imported file."""

    new: list[str]
    kept: list[str]  # runs that are here already and ended as well or better
    other: list[str]  # those among `kept` whose record here has another content


def export_records(tables: list[Table], budget: str | None, outputs: Path, target: Path) -> list[Sample]:
    """Write each finished or diverged record of the tables to a file, at one budget or all; return these records.

    The trials of a choice go with them, so that their reader can see what was chosen.
    """
    requests = [
        (table, name) for table in tables for name in table.budgets if budget in (None, name) and not table.timed
    ]
    collections = []
    for request in requests:
        with left_out(request[0].id):
            collections.append(collect(*request, outputs))
    records = {sample.directory.parts[-2:]: sample for collected in collections for sample in collected.every}
    folders = {parts: sample.directory for parts, sample in records.items()}
    folders |= {trial.parts[-2:]: trial for collected in collections for trial in collected.trials}
    if not records:
        at = f" at {budget}" if budget else ""
        raise Refused(f"{', '.join(table.id for table in tables)}: no records{at}; {target} was not written.")
    with (
        written_atomically(target) as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
        tarfile.open(mode="w", fileobj=packed, format=tarfile.USTAR_FORMAT) as archive,
    ):
        for parts, folder in sorted(folders.items()):
            for path in sorted(folder.rglob("*")):
                name = f"{'/'.join(parts)}/{path.relative_to(folder).as_posix()}"
                if path.is_file() and MEMBER.fullmatch(name):
                    member = tarfile.TarInfo(name)
                    content = path.read_bytes()
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
    return list(records.values())


def import_records(source: Path, outputs: Path) -> Imported:
    """Merge a file of records into outputs/cells; the whole file is checked before anything is written."""
    imported = Imported([], [], [])
    for name, files in sorted(_read(source).items()):
        directory = RunDirectory(outputs / "cells" / name)
        here, there = directory.status, json.loads(files["result.json"])["status"]
        if here in DONE or here == "running" or RANKS.index(here) >= RANKS.index(there):
            imported.kept.append(name)
            if here in DONE and (directory.path / "result.json").read_bytes() != files["result.json"]:
                imported.other.append(name)
            continue
        with directory.leased():
            directory.begin()
            shutil.rmtree(directory.path / "probes", ignore_errors=True)
            for path in sorted(files, key=lambda path: path == "result.json"):  # last, as a run writes it
                with written_atomically(directory.path / path) as file:
                    file.write(files[path])
        imported.new.append(name)
    return imported


def _read(source: Path) -> dict[str, dict[str, bytes]]:
    """Read and check a file of records; return the files of each run."""
    runs: dict[str, dict[str, bytes]] = {}
    try:
        for member in tarred(source, TOTAL):
            match = MEMBER.fullmatch(member.name)
            if match is None or member.open is None or member.size > LARGEST:
                raise Refused(
                    f"{source} contains {member.name[:80]!r}, which is not a file of a record; nothing was imported."
                )
            files = runs.setdefault(match["run"], {})
            if match[2] in files:
                raise Refused(f"{source} contains {member.name!r} twice; nothing was imported.")
            content = member.open()
            files[match[2]] = content.read() if content else b""
    except FileNotFoundError as error:
        raise Refused(f"{source} does not exist.") from error
    except (*BROKEN, OSError) as error:
        raise Refused(f"{source} is not a complete file of `highway records export` ({error}).") from error
    for name, files in runs.items():
        _check(source, name, files)
    return runs


def _check(source: Path, name: str, files: dict[str, bytes]) -> None:
    missing = {"config.yaml", "curves.csv", "result.json"} - set(files)
    if missing:
        raise Refused(f"{source}: {name} has no {min(missing)}; nothing was imported.")
    try:
        result = seal.opened(files["result.json"], Path("result.json"))
    except (ValueError, RecursionError, Corrupt) as error:
        raise Refused(f"{source}: {name}: result.json is corrupt or not a record; nothing was imported.") from error
    if wrong := problem(result):
        raise Refused(f"{source}: {name}: {wrong}; nothing was imported.")
    if result["status"] not in RANKS:
        raise Refused(f"{source}: {name}: its status is unknown; nothing was imported.")
    checksums = {file: hashlib.sha256(content).hexdigest() for file, content in files.items() if file != "result.json"}
    if changed := sorted(dict(checksums.items() ^ result["files"].items())):
        raise Refused(f"{source}: {name}: {changed[0]} has changed since it was recorded; nothing was imported.")
    if f"{result.get('cell')}/seed{result['seed']}" != name:
        raise Refused(f"{source}: {name}: result.json belongs to another run; nothing was imported.")
    if wrong := admission.problem(name.split("/")[0], result, files):
        raise Refused(f"{source}: {name}: {wrong}; nothing was imported.")
