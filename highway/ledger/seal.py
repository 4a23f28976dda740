"""Checksums of what results depend on: written with it, checked when it is read; what does not fit is `Damaged`.

result.json      has its own sha256, and that of every file beside it that is read with it
a checkpoint     has the beginning of its sha256 in its name
a cache          has a seal.json, written last, with the sha256 of its files
weights          have theirs in the header of their file (highway/run/checkpoint.py)
"""

import hashlib
import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from highway.errors import Damaged
from highway.ledger.files import file_sha256, written_atomically

log = logging.getLogger("highway")
SEAL = "seal.json"
OWN = b'\n "sha256": "'  # at the outermost level of a JSON text: not that of something inside
DIGITS = 64


def sealed(content: dict[str, Any]) -> bytes:
    """As JSON, with its own checksum in it: that of the text with zeros in the checksum's place."""
    blank = (json.dumps({**content, "sha256": "0" * DIGITS}, indent=1, sort_keys=True) + "\n").encode()
    before, _, after = _around(blank)
    return before + _own(before, after) + after


def opened(text: bytes, path: Path) -> dict[str, Any]:
    """What was sealed; `path` is where it was read from."""
    before, own, after = _around(text)
    if own != _own(before, after):
        raise Damaged(f"{path} is damaged: its sha256 is not the one that it says")
    content: dict[str, Any] = json.loads(text)
    return content


def _around(text: bytes) -> tuple[bytes, bytes, bytes]:
    """What is before the checksum, the checksum, what is after it."""
    start = text.find(OWN) + len(OWN)
    return text[:start], text[start : start + DIGITS], text[start + DIGITS :]


def _own(before: bytes, after: bytes) -> bytes:
    return hashlib.sha256(before + b"0" * DIGITS + after).hexdigest().encode()


def checksums(folder: Path, paths: Iterable[Path]) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): file_sha256(path) for path in sorted(paths)}


def check_files(folder: Path, expected: dict[str, str]) -> None:
    for name, sha256 in expected.items():
        path = f"{folder}/{name}"
        try:
            found = file_sha256(path)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise Damaged(f"{path} is missing") from None
        if found != sha256:
            raise Damaged(f"{path} is damaged: its sha256 is not the one that was written down")


def check_name(path: Path) -> None:
    """Of a file whose name has its checksum in it."""
    if path.suffixes[-2:-1] != [f".{file_sha256(path)[:16]}"]:
        raise Damaged(f"{path} is damaged: its sha256 is not the one in its name")


def seal_folder(folder: Path) -> None:
    """Last of all, when everything that belongs in it is there."""
    files = checksums(folder, (path for path in folder.iterdir() if path.name != SEAL and path.name[0] != "."))
    with written_atomically(folder / SEAL) as file:
        file.write(sealed({"files": files}))


def is_whole(folder: Path) -> bool:
    """Whether a folder was sealed, and is as it was then; where it is not, it is to be made anew, which is said."""
    path = folder / SEAL
    if not path.exists():
        return False
    try:
        check_files(folder, opened(path.read_bytes(), path)["files"])
    except (Damaged, ValueError, OSError) as damage:
        log.warning("%s; it is made anew.", damage)
        return False
    return True
