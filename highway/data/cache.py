"""Caches of prepared data: folders whose names have the hash of what they were made from.

A cache is made in a folder beside it and then renamed, so it exists as a whole or not at all. One process at a time
makes a cache; the others wait for it. A cache is read once, into memory.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from highway.data.download import emptied, in_turn
from highway.ledger.files import made_folder


def cached(parent: Path, name: str, recipe: list[Any], make: Callable[[Path], None]) -> dict[str, bytes]:
    """Return the content of a cache's files by name. Call `make` with an empty folder if there is no such cache.

    recipe: what the cache is made from, as JSON: sources' checksums, form, tokenizer. The folder's name has its hash.
    """
    key = hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:12]
    folder = parent / f"{name}-{key}"
    if not folder.exists():
        with in_turn(made_folder(parent)):
            if not folder.exists():  # unless another process has made it meanwhile
                with emptied(parent / f".{folder.name}") as unfinished:
                    make(unfinished)
                    unfinished.rename(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}
