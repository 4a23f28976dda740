"""Files that are either whole or absent: written beside their place, flushed, then renamed into it."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from highway.errors import Refused


@contextmanager
def written_atomically(path: Path, durable: bool = True) -> Iterator[BinaryIO]:
    """A binary file to write to; it appears at `path` only when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if durable:  # also after a power cut
                os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except OSError as error:
        raise Refused(f"{path} could not be written: {error.strerror or error}.") from error
    finally:
        if os.path.exists(name):
            os.unlink(name)


def write_text(path: Path, text: str, durable: bool = True) -> None:
    with written_atomically(path, durable) as file:
        file.write(text.encode())


def write_json(path: Path, content: Any, durable: bool = True) -> None:
    write_text(path, json.dumps(content, indent=1, sort_keys=True) + "\n", durable)


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def remove_leftovers(folder: Path) -> None:
    """Files that a killed process was still writing."""
    for path in folder.glob(".*.????????"):
        path.unlink(missing_ok=True)
