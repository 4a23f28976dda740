"""Real data files: find them and verify their sha256, or download them from the first source that has them.

Sources are tried in turn: the original address, then mirrors. A download that breaks off continues where it stopped,
also from another source; if the result has a wrong checksum, it is fetched again from the start. One process at a time
fetches a data set; others wait for its lease. (TED's training text has no published checksum: its pairs are checked.)
"""

import hashlib
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np

from highway.data.transfer import Failure, download, reason, written
from highway.errors import Held, Refused
from highway.ledger.archive import BROKEN, members
from highway.ledger.files import file_sha256, made_folder
from highway.ledger.lease import leased

log = logging.getLogger("highway")
CHUNK = 1 << 20
UNPACKED = 1 << 30  # bytes that an archive may hold
LOOK_AGAIN = 0.5  # seconds, where another process fetches


class Unfit(Exception):
    """What a place gave is not what it should be."""


Judge = Callable[[Path], None]


@dataclass(frozen=True)
class Place:
    """An address that has a data set: the files one by one below it, or an archive of them."""

    url: str
    members: Mapping[str, str] | None = None  # file name -> path inside the archive


@dataclass(frozen=True)
class Files:
    """The files of a data set, and the places that have them: the canonical one, then mirrors, tried in turn."""

    name: str
    folder: str  # below data_dir
    places: tuple[Place, ...]
    checksums: Mapping[str, str]  # file name -> sha256

    def ensure(self, paths: list[Path]) -> None:
        """The files present and intact; fetched when one is missing."""
        if any(not path.exists() for path in paths):
            self.fetch(paths)
        self.verify_all(paths)

    def verify_all(self, paths: Iterable[Path]) -> None:
        """Refuses a file that is missing or not the published one."""
        for path in paths:
            if not path.exists():
                raise Refused(f"{path} is missing; python scripts/data.py prepare fetches it.")
            found, expected = file_sha256(path), self.checksums[path.name]
            if found != expected:
                raise Refused(
                    f"{path} is not the {self.name} file it should be: its sha256 is {found[:12]}..., "
                    f"expected {expected[:12]}...; delete it to fetch it again."
                )

    def fetch(self, paths: list[Path], judge: Judge | None = None) -> None:
        """Those of the files that are missing; what one place has given stays, should another have to give the rest.

        `judge` is for files without a checksum: it reads a folder with all of them, and raises Unfit.
        """
        folder, failures = paths[0].parent, []
        with in_turn(folder):
            for place in self.places:
                missing = [path for path in paths if not path.exists()]
                if not missing:  # another process has fetched them
                    return
                try:
                    self._take(place, missing, judge)
                except (*Failure, Unfit) as error:
                    failures.append(f"{place.url} ({reason(error)})")
                else:
                    instead = f", not from {'; '.join(failures)}" if failures else ""
                    log.info("%s: fetched from %s%s.", self.name, place.url, instead)
                    return
        raise Refused(
            f"{self.name}: {', '.join(path.name for path in missing)} missing from {folder}, and no place gave what it "
            f"should, {'; '.join(failures)}: put the files there, point HIGHWAY_DATA at a folder that has "
            f"{self.folder}/, or use dataset.source=sample."
        )

    def _take(self, place: Place, missing: list[Path], judge: Judge | None) -> None:
        if place.members is None:
            for path in missing:
                _settle(f"{place.url}/{path.name}", path.parent, partial(self._kept, path=path))
        else:
            _settle(place.url, missing[0].parent, partial(self._unpacked, inside=place.members, judge=judge))

    def _kept(self, fetched: Path, path: Path) -> None:
        self._compare(fetched, path.name)
        fetched.replace(path)

    def _unpacked(self, archive: Path, inside: Mapping[str, str], judge: Judge | None) -> None:
        """Takes only the members that are named, to names chosen here, and only when all of them are right."""
        wanted = {member: name for name, member in inside.items()}
        with _emptied(archive.parent / ".unpacked") as made:
            try:
                for member in members(archive, UNPACKED):
                    name = wanted.get(str(PurePosixPath(member.name)))
                    if name is not None and member.open and (content := member.open()):
                        with content, written(made / name) as write:
                            while chunk := content.read(CHUNK):
                                write(chunk)
            except BROKEN as error:
                raise Unfit(f"it is not the archive it should be: {error}") from error
            for name, member_name in inside.items():
                if not (made / name).exists():
                    raise Unfit(f"it is not the archive it should be: {member_name} is not in it")
                self._compare(made / name, name)
            if judge:
                judge(made)
            for name in inside:
                if judge or not (archive.parent / name).exists():  # what is judged as a whole is of one place
                    os.replace(made / name, archive.parent / name)
        archive.unlink()

    def _compare(self, path: Path, name: str) -> None:
        found = file_sha256(path)
        if name in self.checksums and found != self.checksums[name]:
            raise Unfit(f"{name} there has another sha256, {found[:12]}..., than {self.checksums[name][:12]}...")


def _settle(url: str, folder: Path, take: Callable[[Path], None]) -> None:
    """Download, and take what is right. What is wrong may have begun as another place's: then anew."""
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
def _emptied(folder: Path) -> Iterator[Path]:
    """A folder for a while; a process that was killed may have left something in it."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield made_folder(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def in_turn(folder: Path) -> Iterator[None]:
    """One process alone fetches a data set; others wait, and find it there."""
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(leased(folder / ".fetching"))
                break
            except Held:
                time.sleep(LOOK_AGAIN)
        yield


def sha256_of(arrays: Iterable[np.ndarray]) -> str:
    """Of what the arrays of a split hold, end to end."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.tobytes())
    return digest.hexdigest()
