"""Checksums of the files that results depend on, checked at each reading; a file that does not match is `Corrupt`.

result.json      holds its own sha256, and that of each file read with it
a checkpoint     has the beginning of its sha256 in its name
weights          have their sha256 in the header of their file (highway/run/checkpoint.py)
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from highway.errors import Corrupt
from highway.files.writing import file_sha256

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
    except FileNotFoundError:
        raise Corrupt(f"{path} is missing") from None


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
