"""Archives from elsewhere, read member by member and once: none has to be as small, or as flat, as it says.

Nothing is unpacked by name: who reads takes the members that it knows, to names of its own. What is wrong with an
archive comes as one of the exceptions in BROKEN, limits and paths that escape included.
"""

import gzip
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

MEMBERS = 20_000
CHUNK = 1 << 20
BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    ValueError,  # a header's number that is none
    RuntimeError,  # encrypted, or headers upon headers
)


@dataclass(frozen=True)
class Member:
    name: str
    size: int  # as it says
    open: Callable[[], IO[bytes] | None] | None  # None where it is no file: a folder, a link, a device


def members(archive: Path, size: int) -> Iterator[Member]:
    """Of a .zip or .tar.gz that unpacks to `size` bytes at the most, without a path that leaves its folder.

    Each member is to be read before the next.
    """
    found = zipped(archive, size) if zipfile.is_zipfile(archive) else tarred(archive, size)
    for member in found:
        if member.name.startswith("/") or ".." in PurePosixPath(member.name).parts:
            raise tarfile.ReadError(f"it has a path that leaves its folder, {member.name[:80]!r}")
        yield member


def tarred(archive: Path, size: int) -> Iterator[Member]:
    with open(archive, "rb") as packed, gzip.open(packed) as unpacked:
        bounded = _Bounded(unpacked, size)
        with tarfile.open(fileobj=bounded, mode="r|") as opened:  # type: ignore[call-overload]  # reads, and no more
            for number, one in enumerate(opened, start=1):
                if number > MEMBERS:
                    raise tarfile.ReadError(_too_many())
                is_file = one.isreg() and not one.issparse()  # a sparse file's zeros are in no archive
                yield Member(one.name, one.size, partial(opened.extractfile, one) if is_file else None)
        while bounded.read(CHUNK):  # to the end, where the checksum of all of it is
            pass


def zipped(archive: Path, size: int) -> Iterator[Member]:
    with zipfile.ZipFile(archive) as opened:
        if len(opened.infolist()) > MEMBERS:
            raise zipfile.BadZipFile(_too_many())
        if sum(one.file_size for one in opened.infolist()) > size:  # zipfile reads no more of one than it says
            raise zipfile.BadZipFile(_too_large(size))
        for one in opened.infolist():
            yield Member(one.filename, one.file_size, None if one.is_dir() else partial(opened.open, one))


class _Bounded:
    """A stream that breaks off where it has given too much."""

    def __init__(self, file: Any, size: int) -> None:
        self.file, self.size, self.left = file, size, size

    def read(self, count: int) -> bytes:
        found: bytes = self.file.read(count)
        self.left -= len(found)
        if self.left < 0:
            raise tarfile.ReadError(_too_large(self.size))
        return found


def _too_many() -> str:
    return f"it holds more than {MEMBERS:,} files"


def _too_large(size: int) -> str:
    return f"it unpacks to more than {size:,} bytes"
