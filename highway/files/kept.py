"""Values that a command keeps for the next one, in a folder that may be deleted at any time.

A kept file holds its own sha256 and the key of what its value was made from. A file that is corrupt, or whose key is
another one, counts as missing. The signature of a file shows without reading it that it has not changed.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from highway.errors import Corrupt, Unwritable
from highway.files.plain import read_bytes
from highway.files.writing import written_atomically

Signature = list[int]
SETTLED = 2.0  # seconds after a change in which another change may leave the signature as it is


class Kept:
    """Kept values by name. Values and keys consist of what JSON holds."""

    def __init__(self, folder: Path, version: str) -> None:
        """Prepare a folder; `version` stands for the code and settings that every value depends on."""
        self.folder, self.version = folder, version

    def read(self, name: str, key: Any) -> Any:
        """Return the value that was kept under this name and key, or None."""
        try:
            checksum, _, text = read_bytes(self.folder / f"{name}.json").partition(b"\n")
            if checksum != _sha256(text):
                return None
            content = json.loads(text)
        except (OSError, ValueError, Corrupt):
            return None
        return content["value"] if content["made from"] == [self.version, key] else None

    def write(self, name: str, key: Any, value: Any) -> None:
        """Keep a value. Do nothing if the outputs folder does not exist or the file cannot be written."""
        if not self.folder.parents[1].is_dir():
            return
        text = json.dumps({"made from": [self.version, key], "value": value}).encode()
        with suppress(Unwritable), written_atomically(self.folder / f"{name}.json", durable=False) as file:
            file.write(_sha256(text) + b"\n" + text)


def hashed_name(kind: str, about: Any) -> str:
    """Return the name under which a value of this kind is kept about something."""
    return f"{kind}/{hashlib.sha256(repr(about).encode()).hexdigest()[:20]}"


def _sha256(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()


def signature(path: str | Path) -> Signature | None:
    """Return size, times of change and number of a file, which differ after every change; None if it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def signatures(folder: Path, names: Iterable[str]) -> dict[str, Signature | None]:
    """Return the signature of each file of a folder."""
    return {name: signature(f"{folder}/{name}") for name in names}


def settled(signed: dict[str, Signature | None], since: int) -> bool:
    """Return True if each file exists and had not changed for SETTLED seconds at `since`, a value of time.time_ns."""
    latest = since - SETTLED * 1e9
    return all(file is not None and max(file[1], file[2]) < latest for file in signed.values())
