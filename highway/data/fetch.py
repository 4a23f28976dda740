"""Find the files of a data set and verify them, or download them from the first source that has them; cache the rest.

Sources are tried in turn: the original address, then mirrors. A file is used only if its sha256 is the declared one.
TED has no published checksums: its pairs are counted and checked instead (highway/data/translation.py).

A cache of prepared data is a folder whose name has the hash of what it was made from. It is made in a temporary folder
and then renamed, so it exists as a whole or not at all.
"""

import gzip
import hashlib
import json
import logging
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from highway.errors import Refused, Unwritable, readable
from highway.ledger.files import file_sha256, made_folder, writing

log = logging.getLogger("highway")
TIMEOUT = 30.0  # seconds without a byte
CHUNK = 1 << 18  # bytes
BROKEN = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError)  # raised by a wrong archive


@dataclass(frozen=True)
class Source:
    """An address of a data set: the files are below it, or it is an archive of them."""

    url: str
    members: Mapping[str, str] | None = None  # file name -> path inside the archive


@dataclass(frozen=True)
class Files:
    """The files of a data set and their sources: the original address, then mirrors, tried in turn."""

    name: str
    folder: str  # below data_dir
    sources: tuple[Source, ...]
    checksums: Mapping[str, str]  # file name -> sha256; a file without one is taken as it is

    def ensure(self, paths: list[Path]) -> None:
        """Fetch missing files, then verify all."""
        if any(not path.exists() for path in paths):
            self.fetch(paths)
        self.verify_all(paths)

    def verify_all(self, paths: Iterable[Path]) -> None:
        """Refuse a file that is missing or differs from the published file."""
        for path in paths:
            if not path.exists():
                mend = "To fetch it: highway data prepare." if self.sources else "Put it there."
                raise Refused(f"{path} is missing. {mend}")
            actual, expected = file_sha256(path), self.checksums.get(path.name)
            if expected and actual != expected:
                if not self.sources:
                    raise Refused(
                        f"{path} has changed: the sha256 that is declared for it begins with {expected[:12]}. Restore "
                        f'the file, or declare "{path.name}": "{actual}" among the checksums of {self.name}.'
                    )
                raise Refused(
                    f"{path} is not the published {self.name} file: its sha256 is {actual[:12]}..., "
                    f"expected {expected[:12]}.... Delete it to fetch it again."
                )

    def fetch(self, paths: list[Path], check: Callable[[Path], None] | None = None) -> None:
        """Fetch the missing files. Keep files already fetched from one source when another has to supply the rest.

        `check` refuses wrong files that have no checksum: it reads a folder with all of them.
        """
        folder, failures = paths[0].parent, []
        for source in self.sources:
            try:
                with writing(folder), TemporaryDirectory(dir=made_folder(folder), prefix=".fetching-") as temporary:
                    self._fetch_from(source, paths, Path(temporary), check)
            except Unwritable:  # the disk is full: no fault of the source
                raise
            except Refused as error:
                failures.append(f"{source.url} ({readable(str(error))})")
            else:
                instead = f", not from {'; '.join(failures)}" if failures else ""
                log.info("%s: fetched from %s%s.", self.name, source.url, instead)
                return
        missing = [path.name for path in paths if not path.exists()]
        tried = f"Every source failed: {'; '.join(failures)}. " if failures else ""
        raise Refused(
            f"{self.name}: {', '.join(missing)} missing from {folder}. {tried}Put the files there, "
            f"set HIGHWAY_DATA to a folder that has {self.folder}/, or use dataset.source=sample."
        )

    def _fetch_from(
        self, source: Source, paths: list[Path], temporary: Path, check: Callable[[Path], None] | None
    ) -> None:
        """Fetch into a temporary folder below that of the data set, and move the files there that are right."""
        missing = [path for path in paths if not path.exists()]
        if not missing:  # another process was faster
            return
        if source.members is None:
            for path in missing:
                download(f"{source.url}/{path.name}", temporary / path.name)
                self._compare(temporary / path.name)
                (temporary / path.name).replace(path)
            return
        download(source.url, temporary / "archive")
        files = made_folder(temporary / "files")
        _unpack(temporary / "archive", source.members, files)
        for name in source.members:
            self._compare(files / name)
        if check:
            check(files)
        for path in files.iterdir():
            target = temporary.parent / path.name
            if check or not target.exists():
                path.replace(target)

    def _compare(self, path: Path) -> None:
        actual, expected = file_sha256(path), self.checksums.get(path.name)
        if expected and actual != expected:
            raise Refused(f"its {path.name} has the sha256 {actual[:12]}..., expected {expected[:12]}...")


def download(url: str, path: Path) -> None:
    """Download a file over HTTP, with a progress bar on a terminal. If it fails, the refusal says why."""
    from pooch import HTTPDownloader
    from requests import RequestException

    try:
        as_it_is = {"Accept-Encoding": "identity"}  # else requests may unpack a file that is to stay packed
        HTTPDownloader(sys.stderr.isatty(), CHUNK, headers=as_it_is, timeout=TIMEOUT)(url, path, None)
    except RequestException as error:  # is an OSError, as a full disk is
        raise Refused(_reason(error)) from error


def _reason(error: BaseException) -> str:
    """Return in a few words why an address did not deliver the file."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP {response.status_code}: {response.reason}"
    while error.__context__:  # requests wraps urllib3's error, which wraps that of the socket
        error = error.__context__
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


def _unpack(archive: Path, members: Mapping[str, str], folder: Path) -> None:
    """Unpack the named members of a .zip or .tar.gz into a folder, each under the file name given for it."""
    names = {member: name for name, member in members.items()}
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                for entry in zipped.infolist():
                    if name := names.get(str(PurePosixPath(entry.filename))):
                        entry.filename = name
                        zipped.extract(entry, folder)
        else:
            with tarfile.open(archive) as packed:
                for header in packed:
                    if name := names.get(str(PurePosixPath(header.name))):
                        packed.extract(header.replace(name=name), folder, filter="data")
    except BROKEN as error:
        raise Refused(f"it is not the expected archive: {error}") from error
    for name, member in members.items():
        if not (folder / name).exists():
            raise Refused(f"it is not the expected archive: {member} is not in it")


def cached(parent: Path, name: str, recipe: list[Any], make: Callable[[Path], None]) -> Path:
    """Return the folder of a cache. Call `make` with an empty folder if there is no such cache.

    recipe: what the cache is made from, as JSON: sources' checksums, form, tokenizer. The folder's name has its hash.
    """
    key = hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:12]
    folder = parent / f"{name}-{key}"
    if not folder.exists():
        with writing(parent), TemporaryDirectory(dir=made_folder(parent), prefix=f".{folder.name}-") as temporary:
            made = made_folder(Path(temporary) / "made")
            make(made)
            try:
                made.rename(folder)
            except OSError:
                if not folder.exists():  # otherwise another process was faster, and its cache is the same
                    raise
    return folder


def sha256_of(arrays: Iterable[np.ndarray]) -> str:
    """Return the sha256 of the arrays of a split, joined end to end."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.tobytes())
    return digest.hexdigest()
