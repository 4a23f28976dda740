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
def written_atomically(path: Path) -> Iterator[BinaryIO]:
    """A binary file to write to; it appears at `path` only when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except OSError as error:
        raise Refused(f"{path} could not be written: {error.strerror or error}.") from error
    finally:
        if os.path.exists(name):
            os.unlink(name)


def write_text(path: Path, text: str) -> None:
    with written_atomically(path) as file:
        file.write(text.encode())


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=1, sort_keys=True) + "\n")


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())
