"""Write files atomically, and seal those that results depend on with a checksum that is verified at each reading.

A file is written to a temporary file in the same folder, flushed, then renamed. The sha256 of these is in:

result.json      in itself
a checkpoint     the beginning of it in the name of the file
weights          in the header of the file (highway/run/checkpoint.py)
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from highway.errors import Corrupt, Refused, Unwritable

OWN = b'\n "sha256": "'  # indented by one blank, so at the outermost level of a JSON text
DIGITS = 64


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise `Unwritable`, with one sentence, in place of an error of writing."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        cause = error if isinstance(error, OSError) else error.__context__  # torch's writer wraps it in a RuntimeError
        if not isinstance(cause, OSError):
            raise
        raise Unwritable(f"{path} could not be written: {cause.strerror or cause}.") from error


@contextmanager
def written_atomically(path: Path, durable: bool = True, checksum_in_name: bool = False) -> Iterator[BinaryIO]:
    """Open a binary file for writing. It appears at `path` only when the block ends without an error.

    checksum_in_name: x.ckpt becomes x.<16 digits>.ckpt, which `check_name` verifies.
    """
    if not path.name:  # an empty path, `.` or `/`
        raise Refused(f"{path} is a folder, not a file. Name a file in it.")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                if durable:  # survive a power cut
                    os.fsync(file.fileno())
            os.chmod(name, 0o644)
            checksum = f".{file_sha256(name)[:16]}" if checksum_in_name else ""
            os.replace(name, path.with_name(f"{path.stem}{checksum}{path.suffix}"))
        finally:
            if os.path.exists(name):
                os.unlink(name)


def append_text(path: Path, text: str) -> None:
    """Append text to a file, not atomically."""
    with writing(path), open(path, "a", newline="") as file:
        file.write(text)


def made_folder(path: Path) -> Path:
    """Create a folder if it is missing, and return it."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def file_sha256(path: Path | str) -> str:
    """Return the sha256 of a file as hexadecimal digits."""
    digest = hashlib.sha256()  # not hashlib.file_digest: it clears 256 KiB for each of thousands of small files
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(1 << 16):
            digest.update(chunk)
    return digest.hexdigest()


def write_text(path: Path, text: str, durable: bool = True) -> None:
    with written_atomically(path, durable) as file:
        file.write(text.encode())


def write_json(path: Path, content: object, durable: bool = True) -> None:
    write_text(path, json.dumps(content, indent=1, sort_keys=True) + "\n", durable)


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def remove_leftovers(folder: Path) -> None:
    """Delete the temporary files of a process that was killed while it wrote."""
    for path in folder.glob(".*.????????"):
        path.unlink(missing_ok=True)


def with_checksum(content: dict[str, Any]) -> bytes:
    """Return the content as JSON with its own sha256, computed with zeros in place of its digits."""
    blank = (json.dumps({**content, "sha256": "0" * DIGITS}, indent=1, sort_keys=True) + "\n").encode()
    before, _, after = _around(blank)
    return before + _checksum(before, after) + after


def verified(text: bytes, path: Path) -> dict[str, Any]:
    """Return the content of a text with its checksum; `path` is its file, for the message."""
    before, checksum, after = _around(text)
    if checksum != _checksum(before, after):
        raise Corrupt(f"{path} is corrupt: its sha256 is not the one that it states")
    content: dict[str, Any] = json.loads(text)
    return content


def _around(text: bytes) -> tuple[bytes, bytes, bytes]:
    """Split a text with its checksum into the part before the checksum, the checksum and the part after it."""
    start = text.find(OWN) + len(OWN)
    return text[:start], text[start : start + DIGITS], text[start + DIGITS :]


def _checksum(before: bytes, after: bytes) -> bytes:
    return hashlib.sha256(before + b"0" * DIGITS + after).hexdigest().encode()


def check_name(path: Path) -> None:
    """Raise `Corrupt` if a file does not match the checksum in its name."""
    if path.suffixes[-2:-1] != [f".{file_sha256(path)[:16]}"]:
        raise Corrupt(f"{path} is corrupt: its sha256 is not the one in its name")
