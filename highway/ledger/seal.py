"""Checksums of what results depend on: written with it, checked when it is read; what does not fit is `Damaged`.

result.json      has its own sha256, and that of every file beside it that is read with it
a checkpoint     has the beginning of its sha256 in its name
a cache          has a seal.json, written last, with the sha256 of its files
weights          have theirs in the header of their file (highway/run/checkpoint.py)
"""

import hashlib
import json
import logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from highway.errors import Damaged
from highway.ledger.files import file_sha256, written_atomically

log = logging.getLogger("highway")
SEAL = "seal.json"
ZEROS = b"0" * 64
OWN = re.compile(rb'^( "sha256": ")([0-9a-f]{64})', re.MULTILINE)  # not that of something inside


def sealed(content: dict[str, Any]) -> bytes:
    """As JSON, with its own checksum in it: that of the text with zeros in the checksum's place."""
    blank = (json.dumps({**content, "sha256": ZEROS.decode()}, indent=1, sort_keys=True) + "\n").encode()
    return OWN.sub(rb"\g<1>" + hashlib.sha256(blank).hexdigest().encode(), blank, count=1)


def opened(text: bytes, path: Path) -> dict[str, Any]:
    """What was sealed; `path` is where it was read from."""
    own = OWN.search(text)
    if own is None or hashlib.sha256(OWN.sub(rb"\g<1>" + ZEROS, text, count=1)).hexdigest() != own[2].decode():
        raise Damaged(f"{path} is damaged: its sha256 is not the one that it says")
    content: dict[str, Any] = json.loads(text)
    return content


def checksums(folder: Path, paths: Iterable[Path]) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): file_sha256(path) for path in sorted(paths)}


def check_files(folder: Path, expected: dict[str, str]) -> None:
    for name, sha256 in expected.items():
        path = folder / name
        if not path.is_file():
            raise Damaged(f"{path} is missing")
        if file_sha256(path) != sha256:
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
