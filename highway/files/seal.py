"""Checksums of the files that results depend on, checked at each reading; a file that does not match is `Corrupt`.

result.json      holds its own sha256
a checkpoint     has the beginning of its sha256 in its name
weights          have their sha256 in the header of their file (highway/run/checkpoint.py)
"""

import hashlib
import json
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


def check_name(path: Path) -> None:
    """Raise `Corrupt` if a file does not match the checksum in its name."""
    if path.suffixes[-2:-1] != [f".{file_sha256(path)[:16]}"]:
        raise Corrupt(f"{path} is corrupt: its sha256 is not the one in its name")
