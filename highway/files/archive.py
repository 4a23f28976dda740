"""Read archives of unknown origin, member by member and only once. Their stated sizes and paths are not trusted.

No member is unpacked under its own name: the caller takes the members that it knows, and chooses the file names. A
wrong archive raises one of the exceptions in BROKEN, also if it exceeds a limit or has a path outside its folder.
"""

import gzip
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

MEMBERS = 20_000
CHUNK = 1 << 20
BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    ValueError,  # a header field that is not a number
    RuntimeError,  # encrypted, or headers nested too deeply
)


@dataclass(frozen=True)
class Member:
    name: str
    size: int  # bytes, as its header states
    open: Callable[[], IO[bytes] | None] | None  # None if it is not a file: a folder, a link, a device


def members(archive: Path, size: int) -> Iterator[Member]:
    """Yield the members of a .zip or .tar.gz. Refuse paths outside its folder, and more than `size` bytes unpacked.

    Read each member before asking for the next.
    """
    unpacked = zipped(archive, size) if zipfile.is_zipfile(archive) else tarred(archive, size)
    for member in unpacked:
        if member.name.startswith("/") or ".." in PurePosixPath(member.name).parts:
            raise tarfile.ReadError(f"it has a path that leaves its folder, {member.name[:80]!r}")
        yield member


def tarred(archive: Path, size: int) -> Iterator[Member]:
    """Yield the members of a .tar.gz; at most `size` bytes unpacked, MEMBERS members."""
    with open(archive, "rb") as packed, gzip.open(packed) as unpacked:
        bounded = _Bounded(unpacked, size)
        with tarfile.open(fileobj=bounded, mode="r|") as opened:  # type: ignore[call-overload]  # needs only read()
            for number, header in enumerate(opened, start=1):
                if number > MEMBERS:
                    raise tarfile.ReadError(_too_many())
                is_file = header.isreg() and not header.issparse()  # a sparse file's zeros are not in the archive
                yield Member(header.name, header.size, partial(opened.extractfile, header) if is_file else None)
        while bounded.read(CHUNK):  # to the end, so that gzip compares its checksum
            pass


def zipped(archive: Path, size: int) -> Iterator[Member]:
    """Yield the members of a .zip; at most `size` bytes unpacked, MEMBERS members."""
    with zipfile.ZipFile(archive) as opened:
        if len(opened.infolist()) > MEMBERS:
            raise zipfile.BadZipFile(_too_many())
        if sum(header.file_size for header in opened.infolist()) > size:  # zipfile never reads beyond the stated size
            raise zipfile.BadZipFile(_too_large(size))
        for header in opened.infolist():
            unpack = None if header.is_dir() else partial(opened.open, header)
            yield Member(header.filename, header.file_size, unpack)


class _Bounded:
    """A stream that raises an error once it has returned more than `size` bytes."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile, size: int) -> None:
        self.file, self.size, self.left = file, size, size

    def read(self, count: int) -> bytes:
        chunk = self.file.read(count)
        self.left -= len(chunk)
        if self.left < 0:
            raise tarfile.ReadError(_too_large(self.size))
        return chunk


def _too_many() -> str:
    return f"it holds more than {MEMBERS:,} files"


def _too_large(size: int) -> str:
    return f"it unpacks to more than {size:,} bytes"
