"""Find the files of a data set and verify their sha256, or download them from the first source that has them.

Sources are tried in turn: the original address, then mirrors. A download that breaks off continues where it stopped,
also from another source. If the result has a wrong checksum, it is fetched again from the start. One process at a time
fetches a data set; others wait for its lease. TED has no published checksums: its pairs are counted and checked.
"""

import gzip
import hashlib
import logging
import os
import shutil
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np

from highway.data.transfer import Failure, download, reason
from highway.errors import Held, Refused
from highway.ledger.files import file_sha256, made_folder, writing
from highway.ledger.lease import leased

log = logging.getLogger("highway")
BROKEN = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError)  # raised by a wrong archive
FETCHING = ".fetching"  # the folder of leases of processes that fetch or make something
LOOK_AGAIN = 0.5  # seconds between two looks while another process fetches


class Unfit(Exception):
    """A downloaded file is not the expected file."""


Judge = Callable[[Path], None]


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

    def fetch(self, paths: list[Path], judge: Judge | None = None) -> None:
        """Fetch the missing files. Keep files from one source when another has to supply the rest.

        `judge` checks files without a checksum: it reads a folder with all of them, and raises Unfit.
        """
        folder, failures = paths[0].parent, []
        with in_turn(folder):
            for source in self.sources:
                absent = [path for path in paths if not path.exists()]
                if not absent:  # another process has fetched them
                    return
                try:
                    self._take(source, absent, judge)
                except (*Failure, Unfit) as error:
                    failures.append(f"{source.url} ({reason(error)})")
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

    def _take(self, source: Source, missing: list[Path], judge: Judge | None) -> None:
        if source.members is None:
            for path in missing:
                _settle(f"{source.url}/{path.name}", path.parent, partial(self._kept, path=path))
        else:
            _settle(source.url, missing[0].parent, partial(self._unpacked, inside=source.members, judge=judge))

    def _kept(self, fetched: Path, path: Path) -> None:
        self._compare(fetched, path.name)
        fetched.replace(path)

    def _unpacked(self, archive: Path, inside: Mapping[str, str], judge: Judge | None) -> None:
        """Unpack the named members to file names chosen here. Keep them only if all of them are right."""
        with emptied(archive.parent / ".unpacked") as folder:
            with writing(folder):
                try:
                    _unpack(archive, {member: name for name, member in inside.items()}, folder)
                except BROKEN as error:
                    raise Unfit(f"it is not the expected archive: {error}") from error
            for name, member_name in inside.items():
                if not (folder / name).exists():
                    raise Unfit(f"it is not the expected archive: {member_name} is not in it")
                self._compare(folder / name, name)
            if judge:
                judge(folder)
            for name in inside:
                if judge or not (archive.parent / name).exists():  # files judged as a whole come from one source
                    os.replace(folder / name, archive.parent / name)
        archive.unlink()

    def _compare(self, path: Path, name: str) -> None:
        actual = file_sha256(path)
        if name in self.checksums and actual != self.checksums[name]:
            raise Unfit(f"{name} there has the sha256 {actual[:12]}..., expected {self.checksums[name][:12]}...")


def _unpack(archive: Path, names: Mapping[str, str], folder: Path) -> None:
    """Unpack the members of a .zip or .tar.gz that `names` has into a folder, each as the file that `names` says."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for member in zipped.infolist():
                if name := names.get(str(PurePosixPath(member.filename))):
                    member.filename = name
                    zipped.extract(member, folder)
    else:
        with tarfile.open(archive) as packed:
            for header in packed:
                if name := names.get(str(PurePosixPath(header.name))):
                    packed.extract(header.replace(name=name), folder, filter="data")


def _settle(url: str, folder: Path, take: Callable[[Path], None]) -> None:
    """Download and take the file. If it is wrong and continued an earlier download, start once more from nothing."""
    half = folder / f"{url.rsplit('/', 1)[-1]}.part"
    resumed = half.exists()
    download(url, half)
    try:
        take(half)
    except Unfit:
        half.unlink()
        if not resumed:
            raise
        _settle(url, folder, take)


@contextmanager
def emptied(folder: Path) -> Iterator[Path]:
    """Provide an empty temporary folder. A process that was killed may have left files in it."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield made_folder(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def in_turn(folder: Path) -> Iterator[None]:
    """Let one process at a time fetch a data set or make a cache. The others wait, and then find the files."""
    waiting = False
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(leased(folder / FETCHING))
                break
            except Held as held:
                if not waiting:
                    log.info("%s", held)
                waiting = True
                time.sleep(LOOK_AGAIN)
        yield


def sha256_of(arrays: Iterable[np.ndarray]) -> str:
    """Return the sha256 of the arrays of a split, joined end to end."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.tobytes())
    return digest.hexdigest()
