"""Open plain files only. A directory, a FIFO, a socket or a device in the place of a file is `Corrupt`.

Opening a FIFO in the usual way would block until another process opens it, too. Every file that a run, a sweep or a
report reads or appends to is opened here; tests/project/test_plain_files.py checks this.
"""

import errno
import io
import logging
import os
import stat
from pathlib import Path
from typing import BinaryIO, TextIO

from highway.errors import Corrupt

log = logging.getLogger("highway")
KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
NO_READER = (errno.ENXIO, errno.EISDIR)  # a socket, a FIFO that no process reads, a directory to write to


def plain_handle(path: Path | str, flags: int = os.O_RDONLY) -> int:
    """Open a plain file and return its descriptor. Raise `Corrupt` if something else has its name."""
    try:
        handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and os.path.islink(path):
            raise Corrupt(f"{path} is a link to nothing: move it away") from error
        if error.errno == errno.ELOOP:
            raise Corrupt(f"{path} is a link that leads back to itself: move it away") from error
        if error.errno in NO_READER:
            raise Corrupt(_not_a_file(path, os.stat(path).st_mode)) from error
        raise
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise Corrupt(_not_a_file(path, mode))
    return handle


def _not_a_file(path: Path | str, mode: int) -> str:
    return f"{path} is {KINDS.get(stat.S_IFMT(mode), 'something else')}, not a file: move it away"


def open_plain(path: Path | str) -> BinaryIO:
    """Open a plain file for reading bytes."""
    return os.fdopen(plain_handle(path), "rb")


def open_text(path: Path | str) -> TextIO:
    """Open a plain file for reading text, with its line ends as they are."""
    return io.TextIOWrapper(open_plain(path), encoding="utf-8", newline="")


def read_bytes(path: Path | str) -> bytes:
    with open_plain(path) as file:
        return file.read()


def read_text(path: Path | str, errors: str = "strict") -> str:
    """Return the text of a UTF-8 file, with `\\n` for any line end; `errors` says what happens to other bytes."""
    with io.TextIOWrapper(open_plain(path), encoding="utf-8", errors=errors) as file:
        return file.read()


def make_way(path: Path, folder: bool = False) -> None:
    """Rename anything at this path that is no plain file (with `folder`: no directory), and log its new name."""
    fits = path.is_dir() if folder else path.is_file()
    if os.path.lexists(path) and not fits:
        log.warning("%s is not a %s. It is now %s.", path, "directory" if folder else "file", set_aside(path))


def set_aside(path: Path) -> Path:
    """Rename a file or directory to unusable-<name>, which nothing reads, and return the new path."""
    target, number = path.with_name(f"unusable-{path.name}"), 1
    while os.path.lexists(target):
        number += 1
        target = path.with_name(f"unusable-{number}-{path.name}")
    return path.rename(target)
