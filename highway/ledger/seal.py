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
from highway.ledger.files import file_sha256, read_json, write_json

log = logging.getLogger("highway")
SEAL = "seal.json"


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """With its own checksum in it."""
    return {**content, "sha256": _sha256(content)}


def check(content: Any, path: Path) -> dict[str, Any]:
    """What was sealed, as it was read from `path`."""
    if not isinstance(content, dict) or content.get("sha256") != _sha256(content):
        raise Damaged(f"{path} is damaged: its sha256 is not the one that it says")
    return content


def _sha256(content: dict[str, Any]) -> str:
    plain = {key: value for key, value in content.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


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
    write_json(folder / SEAL, sealed({"files": files}))


def is_whole(folder: Path) -> bool:
    """Whether a folder was sealed, and is as it was then; where it is not, it is to be made anew, which is said."""
    path = folder / SEAL
    if not path.exists():
        return False
    try:
        check_files(folder, check(read_json(path), path)["files"])
    except (Damaged, ValueError, OSError) as damage:
        log.warning("%s; it is made anew.", damage)
        return False
    return True
