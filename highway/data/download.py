"""Real data files: found and checked by sha256, or fetched from their canonical place, in several goes if need be."""

import gzip
import hashlib
import shutil
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np

from highway.errors import Refused
from highway.ledger.files import file_sha256, written_atomically

CHUNK = 1 << 20


@dataclass(frozen=True)
class Files:
    """Where a data set comes from: files that can be had one by one, below `url`."""

    name: str
    url: str
    folder: str  # below data_dir
    checksums: dict[str, str]  # file name -> sha256

    def ensure(self, paths: list[Path]) -> None:
        """The files present and intact; fetched when one is missing."""
        missing = [path for path in paths if not path.exists()]
        if missing:
            self.fetch(missing)
        for path in paths:
            self.verify(path, self.checksums[path.name])

    def verify_all(self, paths: Iterable[Path]) -> None:
        """Refuses a file that is missing or not the published one."""
        for path in paths:
            if not path.exists():
                raise Refused(f"{path} is missing; python scripts/data.py prepare fetches it.")
            self.verify(path, self.checksums[path.name])

    def verify(self, path: Path, expected: str) -> None:
        found = file_sha256(path)
        if found != expected:
            raise Refused(
                f"{path} is not the {self.name} file it should be: its sha256 is {found[:12]}..., "
                f"expected {expected[:12]}...; delete it to fetch it again."
            )

    def fetch(self, missing: list[Path]) -> None:
        for path in missing:
            partial = self._downloaded(f"{self.url}/{path.name}", path.parent, missing)
            self.verify(partial, self.checksums[path.name])
            partial.replace(path)

    def _downloaded(self, url: str, folder: Path, missing: list[Path]) -> Path:
        partial = folder / (url.rsplit("/", 1)[-1] + ".part")
        try:
            download(url, partial)
        except OSError as error:
            reason = getattr(error, "reason", None) or error
            raise Refused(
                f"{self.name}: {', '.join(path.name for path in missing)} missing from {folder}, and {url} "
                f"could not be reached ({reason}): put the files there, point HIGHWAY_DATA at a folder "
                f"that has {self.folder}/, or use dataset.source=sample."
            ) from error
        return partial


@dataclass(frozen=True)
class Archive(Files):
    """One archive, and the members of it that we use."""

    members: dict[str, str]  # path inside the archive -> file name in the folder
    sha256: str | None = None  # of the archive; None where each member is checked instead

    def fetch(self, missing: list[Path]) -> None:
        folder = missing[0].parent
        partial = self._downloaded(self.url, folder, missing)
        if self.sha256 is not None:
            self.verify(partial, self.sha256)
        self._unpack(partial, folder)
        partial.unlink()

    def _unpack(self, archive: Path, folder: Path) -> None:
        """Takes only the members named here, to names chosen here; an archive with a path that escapes is refused."""
        try:
            with zipfile.ZipFile(archive) if self.url.endswith(".zip") else tarfile.open(archive) as opened:
                escaping = next((name for name in _names(opened) if _escapes(name)), None)
                if escaping is not None:
                    raise tarfile.TarError(f"it has a path that leaves its folder, {escaping}")
                for member, name in self.members.items():
                    with _content(opened, member) as content, written_atomically(folder / name) as file:
                        shutil.copyfileobj(content, file)
        except (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, KeyError) as error:
            archive.unlink()
            raise Refused(
                f"{archive} from {self.url} is not the archive it should be ({error}); run again to fetch it anew."
            ) from error


Opened = zipfile.ZipFile | tarfile.TarFile


def _names(archive: Opened) -> list[str]:
    if isinstance(archive, zipfile.ZipFile):
        return archive.namelist()
    names = archive.getnames()
    while archive.fileobj and archive.fileobj.read(CHUNK):  # to the end, where the checksum of all of it is
        pass
    return names


def _escapes(name: str) -> bool:
    return name.startswith("/") or ".." in PurePosixPath(name).parts


def _content(archive: Opened, member: str) -> IO[bytes]:
    content = archive.open(member) if isinstance(archive, zipfile.ZipFile) else archive.extractfile(member)
    if content is None:
        raise KeyError(member)
    return content


def download(url: str, partial: Path) -> None:
    """Fetch `url` into `partial`, going on from the bytes that an earlier attempt left there."""
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=30)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing is left to fetch
            return
        raise
    partial.parent.mkdir(parents=True, exist_ok=True)
    with response, open(partial, "ab" if response.status == 206 else "wb") as file:
        expected = response.headers.get("Content-Length")
        written = 0
        while chunk := response.read(CHUNK):
            file.write(chunk)
            written += len(chunk)
    if expected is not None and written != int(expected):
        raise ConnectionError(f"it broke off after {written} of {expected} bytes; run again to go on from there")


def sha256_of(arrays: Iterable[np.ndarray]) -> str:
    """Of what the arrays of a split hold, end to end."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.tobytes())
    return digest.hexdigest()
