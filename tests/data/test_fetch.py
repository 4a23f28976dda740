"""Downloads from our own servers on the loopback: mirrors in turn, checksums, and what is said when all fail."""

import errno
import gzip
import hashlib
import http.server
import io
import logging
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highway.data import fetch, sources
from highway.data.fetch import Files, Source
from highway.errors import Refused, Unwritable

NOBODY = "http://127.0.0.1:9"  # no server listens there
RIGHT = b"right" * 9


class Server(http.server.BaseHTTPRequestHandler):
    """Answers each path from `held`: with bytes, with a status code, or by calling a function."""

    held: dict[str, Any] = {}
    asked: list[str] = []

    def do_GET(self) -> None:
        type(self).asked.append(self.path)
        answer = self.held.get(self.path, 404)
        if callable(answer):
            answer(self)
        elif isinstance(answer, int):
            self.send_error(answer)
        else:
            self.give(answer, len(answer))

    def give(self, content: bytes, length: int) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    Server.held, Server.asked = {}, []
    monkeypatch.setattr(fetch, "TIMEOUT", 0.5)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def packed(members: dict[str, bytes | str]) -> bytes:
    """Return a packed archive: bytes are the content of a member, and a text is the target of a link."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            if isinstance(content, str):
                entry.type, entry.linkname, content = tarfile.SYMTYPE, content, b""
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def toy(*of: Source, content: bytes = RIGHT) -> Files:
    return Files("toy", "toy", of, {"a.txt": hashlib.sha256(content).hexdigest()})


def inside(url: str) -> Source:
    return Source(url, {"a.txt": "in/a.txt"})


# One file that a server gives, or not


def silent(request: Server) -> None:
    threading.Event().wait(0.8)


def broken_off(request: Server) -> None:
    request.give(RIGHT[:20], len(RIGHT))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (503, "HTTP 503: Service Unavailable"),
        (silent, "timed out"),
        (broken_off, "20 bytes read, 25 more expected"),
    ],
)
def test_servers_that_behave_badly_get_one_sentence(server: str, tmp_path: Path, answer: Any, message: str) -> None:
    Server.held["/a.txt"] = answer
    with pytest.raises(Refused, match=message) as refused:
        toy(Source(server)).ensure([tmp_path / "toy" / "a.txt"])
    assert "\n" not in str(refused.value)
    assert list((tmp_path / "toy").iterdir()) == [], "nothing is left of what broke off"


def test_a_disk_that_takes_nothing_is_no_fault_of_the_sources(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    Server.held["/a.txt"] = RIGHT
    (tmp_path / "toy").write_text("a file where the folder should be")
    with pytest.raises(Unwritable, match=r"toy could not be written: File exists"):
        toy(Source(server)).ensure([tmp_path / "toy" / "a.txt"])
    monkeypatch.setattr("pooch.HTTPDownloader.__call__", full)
    with pytest.raises(Unwritable, match=r"other could not be written: No space left on device"):
        toy(Source(server)).ensure([tmp_path / "other" / "a.txt"])


# Mirrors in turn


def test_the_second_source_is_asked_where_the_first_is_down(
    server: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "highway")
    Server.held["/toy.tgz"] = packed({"./in/a.txt": RIGHT, "in/b.txt": b"another"})
    path = tmp_path / "toy" / "a.txt"
    toy(Source(NOBODY), inside(f"{server}/toy.tgz")).ensure([path])
    assert path.read_bytes() == RIGHT
    assert sorted(p.name for p in tmp_path.rglob("*.t*")) == ["a.txt"], "nothing else of the archive, and no half"
    assert caplog.messages == [f"toy: fetched from {server}/toy.tgz, not from {NOBODY} (Connection refused)."]
    toy(Source(NOBODY)).ensure([path])  # the file is present and is not fetched again
    assert len(Server.asked) == 1


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (b"<html>moved</html>", "it is not the expected archive: "),
        (packed({"in/a.txt": b"changed"}), "a.txt has the sha256 .*, expected dbdb7086ffe4"),
        (packed({"other": RIGHT}), "it is not the expected archive: in/a.txt is not in it"),
        (packed({"in/a.txt": "/etc/passwd"}), "it is not the expected archive: .*a.txt"),
        (packed({"in/a.txt": RIGHT * 9999})[:60], "it is not the expected archive: "),
    ],
    ids=["text", "changed", "lacks the file", "a link", "truncated"],
)
def test_what_is_wrong_is_not_taken(server: str, tmp_path: Path, wrong: bytes, why: str) -> None:
    path = tmp_path / "toy" / "a.txt"
    Server.held["/1/toy.tgz"] = Server.held["/2/toy.tgz"] = wrong
    alone = toy(inside(f"{server}/1/toy.tgz"), inside(f"{server}/2/toy.tgz"))
    with pytest.raises(Refused, match=rf"a\.txt missing from .*toy\. Every source failed: .*/1/.*/2/.*{why}") as no:
        alone.ensure([path])
    assert "\n" not in str(no.value)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    Server.held["/3/toy.tgz"] = packed({"in/a.txt": RIGHT})
    toy(*alone.sources, inside(f"{server}/3/toy.tgz")).ensure([path])
    assert path.read_bytes() == RIGHT


def test_files_from_one_source_stay(server: str, tmp_path: Path) -> None:
    """Files fetched from one mirror stay when another mirror has to supply the rest."""
    Server.held = {"/1/a.txt": b"a", "/2/a.txt": b"not a", "/2/b.txt": b"b"}
    sums = {f"{name}.txt": hashlib.sha256(name.encode()).hexdigest() for name in "ab"}
    Files("toy", "toy", (Source(f"{server}/1"), Source(f"{server}/2")), sums).ensure([tmp_path / name for name in sums])
    assert [(tmp_path / name).read_text() for name in sums] == ["a", "b"]
    assert Server.asked == ["/1/a.txt", "/1/b.txt", "/2/b.txt"]


def test_two_may_fetch_at_once(server: str, tmp_path: Path) -> None:
    Server.held = {"/a.txt": RIGHT}
    files, path = Files("toy", "toy", (Source(server),), {"a.txt": sha256(RIGHT)}), tmp_path / "toy" / "a.txt"
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: files.ensure([path]), range(2)))
    assert [found.name for found in path.parent.iterdir()] == ["a.txt"] and path.read_bytes() == RIGHT


def test_a_packed_file_stays_packed(server: str, tmp_path: Path) -> None:
    """The server may pack what it sends only if it is asked to."""
    content = gzip.compress(RIGHT)

    def answer(handler: Server) -> None:
        handler.give(content if handler.headers["Accept-Encoding"] == "identity" else b"packed twice", len(content))

    Server.held = {"/a.gz": answer}
    Files("toy", "toy", (Source(server),), {"a.gz": sha256(content)}).ensure([tmp_path / "a.gz"])
    assert (tmp_path / "a.gz").read_bytes() == content


def test_a_file_that_is_there_is_not_replaced(server: str, tmp_path: Path) -> None:
    Server.held["/toy.tgz"] = packed({"in/a.txt": RIGHT, "in/b.txt": b"b"})
    (tmp_path / "a.txt").write_text("changed by its owner")
    sums = {"a.txt": sha256(RIGHT), "b.txt": sha256(b"b")}
    files = Files("toy", "toy", (Source(f"{server}/toy.tgz", {name: f"in/{name}" for name in sums}),), sums)
    with pytest.raises(Refused, match=r"a\.txt is not the published toy file.* Delete it to fetch it again"):
        files.ensure([tmp_path / name for name in sums])
    assert [(tmp_path / name).read_text() for name in sums] == ["changed by its owner", "b"]


def test_a_zip_is_unpacked_too(server: str, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("in/a.txt", RIGHT)
        made.writestr("in/b.txt", b"another")
    Server.held["/toy.zip"] = buffer.getvalue()
    toy(inside(f"{server}/toy.zip")).ensure([tmp_path / "toy" / "a.txt"])
    assert [path.read_bytes() for path in tmp_path.rglob("*.txt")] == [RIGHT]


def test_offline_says_where_to_put_the_file(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"a\.txt missing from .*toy.*Connection refused.*HIGHWAY_DATA"):
        toy(inside(f"{NOBODY}/archive.tgz")).ensure([tmp_path / "toy" / "a.txt"])


def test_every_data_set_has_a_mirror() -> None:
    """Every published data set has a second source, and a check of each file: its own sha256, or for TED its pairs."""
    every = [files for files in vars(sources).values() if isinstance(files, Files) and files is not sources.SUBSTITUTE]
    assert len(every) == 5
    for files in every:
        assert len({source.url for source in files.sources}) == len(files.sources) >= 2, files.name
        for source in files.sources:
            assert source.members is None or set(source.members) == set(files.checksums) or files is sources.TED
        assert all(len(checksum) == 64 for checksum in files.checksums.values())


def test_own_files_need_no_checksum_and_no_source(tmp_path: Path) -> None:
    notes = Files("notes", "notes", sources=(), checksums={})
    path = tmp_path / "notes" / "notes.txt"
    path.parent.mkdir()
    with pytest.raises(Refused, match=r"notes: notes\.txt missing from .*/notes\. Put the files there"):
        notes.ensure([path])
    path.write_bytes(RIGHT)
    notes.ensure([path])
    with pytest.raises(Refused, match=rf'declare "notes\.txt": "{sha256(RIGHT)}" among the checksums of notes'):
        replace(notes, checksums={"notes.txt": "0" * 64}).ensure([path])


def test_a_changed_part_of_the_substitute_corpus_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tatoeba.pt"
    path.write_text("Olá.\n")
    mend = rf'Restore the file, or declare "tatoeba\.pt": "{sha256(path.read_bytes())}" among the checksums of '
    with pytest.raises(
        Refused, match=rf"tatoeba\.pt has changed: .* begins with 8a5148ff3b55\. {mend}substitute corpus"
    ):
        sources.SUBSTITUTE.verify_all([path])
    with pytest.raises(Refused, match=r"bible\.pt is missing\. Put it there\."):
        sources.SUBSTITUTE.verify_all([tmp_path / "bible.pt"])


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
