"""Checksums of the files that results depend on, checked at each reading; a file that does not match is `Corrupt`.

result.json      holds its own sha256, and that of each file read with it
a checkpoint     has the beginning of its sha256 in its name
a cache          has a seal.json, written last, with the sha256 of its files
weights          have their sha256 in the header of their file (highway/run/checkpoint.py)
"""

import hashlib
import json
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from highway.errors import Corrupt
from highway.files.plain import read_bytes
from highway.files.writing import WRITTEN, file_sha256, written_atomically

log = logging.getLogger("highway")
SEAL = "seal.json"
OWN = b'\n "sha256": "'  # indented by one blank, so at the outermost level of a JSON text
DIGITS = 64


def sealed(content: dict[str, Any]) -> bytes:
    """Return the content as JSON with its own sha256, computed with zeros in place of its digits."""
    blank = (json.dumps({**content, "sha256": "0" * DIGITS}, indent=1, sort_keys=True) + "\n").encode()
    before, _, after = _around(blank)
    return before + _checksum(before, after) + after


def opened(text: bytes, path: Path) -> dict[str, Any]:
    """Return the content of a sealed text; `path` is its file, for the message."""
    before, checksum, after = _around(text)
    if checksum != _checksum(before, after):
        raise Corrupt(f"{path} is corrupt: its sha256 is not the one that it states")
    content: dict[str, Any] = json.loads(text)
    return content


def _around(text: bytes) -> tuple[bytes, bytes, bytes]:
    """Split a sealed text into the part before the checksum, the checksum and the part after it."""
    start = text.find(OWN) + len(OWN)
    return text[:start], text[start : start + DIGITS], text[start + DIGITS :]


def _checksum(before: bytes, after: bytes) -> bytes:
    return hashlib.sha256(before + b"0" * DIGITS + after).hexdigest().encode()


def checksums(folder: Path, paths: Iterable[Path]) -> dict[str, str]:
    """Return the sha256 of each file, by its path relative to the folder."""
    return {path.relative_to(folder).as_posix(): _sha256(path) for path in sorted(paths)}


def _sha256(path: Path | str) -> str:
    try:
        return file_sha256(path)
    except (FileNotFoundError, NotADirectoryError):
        raise Corrupt(f"{path} is missing") from None


def check_written(folder: Path, sums: dict[str, str]) -> None:
    """Raise `Corrupt` if something else has changed a file since this process wrote it; a seal would hide that."""
    for name, sha256 in sums.items():
        if WRITTEN.get(os.path.abspath(folder / name)) not in (None, "", sha256):
            raise Corrupt(f"{folder / name} was changed by something else after it was written")


def read_unchanged(path: Path) -> str:
    """Return the text of a file. Raise `Corrupt` if it is missing, or changed since this process wrote it."""
    try:
        content = read_bytes(path)
    except FileNotFoundError:
        raise Corrupt(f"{path} is missing") from None
    check_written(path.parent, {path.name: hashlib.sha256(content).hexdigest()})
    return content.decode()


def check_files(folder: Path, expected: dict[str, str]) -> None:
    """Raise `Corrupt` if a file of the folder is missing or has another sha256."""
    for name, sha256 in expected.items():
        path = f"{folder}/{name}"
        if _sha256(path) != sha256:
            raise Corrupt(f"{path} is corrupt: its sha256 is not the recorded one")


def check_name(path: Path) -> None:
    """Raise `Corrupt` if a file does not match the checksum in its name."""
    if path.suffixes[-2:-1] != [f".{file_sha256(path)[:16]}"]:
        raise Corrupt(f"{path} is corrupt: its sha256 is not the one in its name")


def seal_folder(folder: Path, recipe: list[Any]) -> None:
    """Write seal.json with the checksums of all files in the folder, and what they were made from. Call this last."""
    files = checksums(folder, (path for path in folder.iterdir() if path.name != SEAL and path.name[0] != "."))
    check_written(folder, files)
    with written_atomically(folder / SEAL) as file:
        file.write(sealed({"files": files, "recipe": recipe}))


def contents(folder: Path, recipe: list[Any]) -> dict[str, bytes] | None:
    """Return the content of each file of a sealed folder, by name. The checksums are those of the returned bytes.

    Return None if it is not sealed; also None, with a warning, if it is corrupt or made from another recipe.
    """
    path = folder / SEAL
    if not os.path.lexists(path):
        return None
    try:
        stated = opened(read_bytes(path), path)
        if stated.get("recipe") != json.loads(json.dumps(recipe)):
            raise Corrupt(f"{folder} does not say that it was made from this data")
        read = {name: read_bytes(folder / name) for name in stated["files"]}
        wrong = [name for name, content in read.items() if stated["files"][name] != hashlib.sha256(content).hexdigest()]
        if wrong:
            raise Corrupt(f"{folder}/{wrong[0]} is corrupt: its sha256 is not the recorded one")
    except FileNotFoundError as error:
        damage = f"{error.filename} is missing"
    except (Corrupt, ValueError, TypeError, LookupError, OSError) as error:
        damage = str(error)
    else:
        return read
    log.warning("%s. It is rebuilt.", damage)
    return None
