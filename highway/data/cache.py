"""Caches of prepared data: folders whose seal.json names what they were made from, and the sha256 of each file.

A cache is read once, into memory: the bytes that are checked are the bytes that are used. A file that changes on disk
while a run trains therefore changes nothing. One process at a time makes a cache; the others wait for it.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from highway.data.download import FETCHING, in_turn
from highway.errors import Corrupt
from highway.files import seal
from highway.files.writing import made_folder


def cached(parent: Path, name: str, recipe: list[Any], make: Callable[[Path], None]) -> dict[str, bytes]:
    """Return the content of a cache's files by name. Call `make` with its folder if the cache cannot be used.

    recipe: what the cache is made from, as JSON: sources' checksums, form, tokenizer. The folder's name has its hash.
    """
    key = hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]
    folder = parent / f"{name}-{key}"
    if (contents := seal.contents(folder, recipe)) is not None:
        return contents
    made_folder(folder)
    with in_turn(folder):
        if (contents := seal.contents(folder, recipe)) is None:  # unless another process has made it meanwhile
            _empty(folder)
            make(folder)
            seal.seal_folder(folder, recipe)
            contents = seal.contents(folder, recipe)
    if contents is None:
        raise Corrupt(f"{folder} was changed by something else while it was made. Type the same command again")
    return contents


def _empty(folder: Path) -> None:
    """Delete what an earlier process left in a cache, temporary files included."""
    for path in folder.iterdir():
        if path.name == FETCHING:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            os.unlink(path)
