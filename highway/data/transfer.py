"""Download a file over HTTP: resume a broken transfer, retry temporary errors, and show the progress."""

import logging
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

from highway.ledger.files import writing

log = logging.getLogger("highway")
CHUNK = 1 << 18
TIMEOUT = 30.0  # seconds without a byte
PAUSES = (1.0, 4.0)  # seconds before each retry
TRANSIENT = (429, 500, 502, 503, 504)
LARGEST = 1 << 30  # bytes; every data set is smaller
SHOWN_FROM = 4 << 20  # bytes; a smaller download has no progress display
SAY_EVERY = 30.0  # seconds between lines if there is no terminal
Failure = (OSError, HTTPException)  # raised by `download` if an address does not deliver the file


def download(url: str, partial: Path) -> None:
    """Fetch `url` into `partial`, after the bytes that an earlier attempt left there, from this or another address."""
    for pause in (*PAUSES, None):
        try:
            return _attempt(url, partial)
        except Failure as error:
            if pause is None or not _may_pass(error):
                raise
            time.sleep(pause)


def reason(error: BaseException) -> str:
    """Return in a few words why an address did not deliver the file."""
    if isinstance(error, urllib.error.HTTPError):
        error.close()
    cause = getattr(error, "reason", None) or error
    cause = getattr(cause, "strerror", None) or cause
    code = f"HTTP {error.code}: " if isinstance(error, urllib.error.HTTPError) else ""
    return code + (" ".join(str(cause).split()) or type(error).__name__)


def _may_pass(error: BaseException) -> bool:
    """Return True for temporary errors: a broken connection or an overloaded server, not a missing server or file."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code in TRANSIENT
    return not isinstance(error, urllib.error.URLError)


def _attempt(url: str, partial: Path) -> None:
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing is left to fetch
            error.close()
            return
        raise
    with response, written(partial, response.status == 206) as write:
        length = response.headers.get("Content-Length")
        begun = have if response.status == 206 else 0
        arrived = begun
        with _shown(url.rsplit("/", 1)[-1], begun, None if length is None else begun + int(length)) as show:
            while chunk := response.read(CHUNK):
                write(chunk)
                arrived += len(chunk)
                show(arrived)
                if arrived > LARGEST:
                    raise urllib.error.URLError(f"it sends more than {LARGEST:,} bytes")
    if length is not None and arrived - begun != int(length):
        raise ConnectionError(
            f"it broke off after {arrived - begun:,} of {int(length):,} bytes; run the same command again to resume"
        )


@contextmanager
def written(path: Path, append: bool = False) -> Iterator[Callable[[bytes], None]]:
    """Provide a function that writes to a file. A full disk raises `Unwritable`, so no address is blamed."""

    def write(chunk: bytes) -> None:
        left = memoryview(chunk)
        with writing(path):
            while left:  # a nearly full disk writes a part, and raises an error only at the next call
                left = left[file.write(left) :]

    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "ab" if append else "wb", buffering=0)  # noqa: SIM115 (closed below)
    with file:
        yield write


@contextmanager
def _shown(name: str, have: int, total: int | None) -> Iterator[Callable[[int], None]]:
    """Provide a function that shows progress: a bar on a terminal, else log lines, nothing for a small file."""
    if total is not None and total - have < SHOWN_FROM:
        yield lambda arrived: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(name, total=total, completed=have)
            yield lambda arrived: bar.update(task, completed=arrived)
    else:
        yield _Lines(name, total).show


class _Lines:
    """Progress as log lines, one every SAY_EVERY seconds."""

    def __init__(self, name: str, total: int | None) -> None:
        self.name, self.total, self.said = name, total, time.monotonic()

    def show(self, arrived: int) -> None:
        if time.monotonic() - self.said >= SAY_EVERY:
            self.said = time.monotonic()
            of_all = f" of {self.total / 1e6:,.0f}" if self.total else ""
            log.info("%s: %.0f%s MB", self.name, arrived / 1e6, of_all)
