"""Downloads from our own servers on the loopback: mirrors in turn, checksums, and where a transfer resumes."""

import hashlib
import http.server
import io
import logging
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highway.data import sources, transfer
from highway.data.download import Files, Source, in_turn
from highway.data.transfer import download
from highway.errors import Refused
from tests.support.waiting import wait_for

NOBODY = "http://127.0.0.1:9"  # no server listens there
RIGHT = b"right" * 9


class Server(http.server.BaseHTTPRequestHandler):
    """Answers each path from `held`: with bytes, with a status code, or by calling a function."""

    held: dict[str, Any] = {}
    break_after: list[int] = []  # the numbers of bytes after which the next answers break off
    asked: list[tuple[str, str | None]] = []

    def do_GET(self) -> None:
        start = self.headers.get("Range")
        type(self).asked.append((self.path, start))
        what = self.held.get(self.path, 404)
        if callable(what):
            what(self)
        elif isinstance(what, int):
            self.send_error(what)
        else:
            self._give(what, int(start.split("=")[1].rstrip("-")) if start else 0)

    def _give(self, content: bytes, start: int) -> None:
        if start and start >= len(content):
            self.send_error(416)
            return
        body = content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.break_after.pop(0)] if self.break_after else body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    Server.held, Server.break_after, Server.asked = {}, [], []
    monkeypatch.setattr(transfer, "PAUSES", (0.0, 0.0))
    monkeypatch.setattr(transfer, "TIMEOUT", 0.5)
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


def test_what_breaks_off_again_and_again_is_kept(server: str, tmp_path: Path) -> None:
    Server.held["/file"] = bytes(9000)
    Server.break_after = [4000, 1000, 500]
    with pytest.raises(
        ConnectionError, match="it broke off after 500 of 4,000 bytes; run the same command again to resume"
    ):
        download(f"{server}/file", tmp_path / "part")
    assert (tmp_path / "part").stat().st_size == 5500
    download(f"{server}/file", tmp_path / "part")
    assert (tmp_path / "part").read_bytes() == bytes(9000)


def in_a_circle(request: Server) -> None:
    request.send_response(302)
    request.send_header("Location", request.path)
    request.end_headers()


def to_a_file(request: Server) -> None:
    request.send_response(302)
    request.send_header("Location", "file:///etc/passwd")
    request.end_headers()


def silent(request: Server) -> None:
    threading.Event().wait(0.8)


def endless(request: Server) -> None:
    request.send_response(200)
    request.end_headers()
    request.wfile.write(bytes(5000))


def nonsense(request: Server) -> None:
    request.wfile.write(b"what?\r\n\r\n")


@pytest.mark.parametrize(
    ("answer", "message", "requests"),
    [
        (503, "HTTP 503: ", 3),
        (404, "HTTP 404: ", 1),
        (in_a_circle, "HTTP 302: .*infinite loop", 5),
        (to_a_file, "HTTP 302: .*not allowed", 1),
        (silent, "timed out", 3),
        (endless, "it sends more than 4,000 bytes", 1),
        (nonsense, "what?", 3),
    ],
)
def test_servers_that_behave_badly_get_one_sentence(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Any, message: str, requests: int
) -> None:
    """A server is asked again only where another answer may come."""
    monkeypatch.setattr(transfer, "LARGEST", 4000)
    Server.held["/a.txt"] = answer
    with pytest.raises(Refused, match=message) as refused:
        toy(Source(server)).ensure([tmp_path / "toy" / "a.txt"])
    assert "\n" not in str(refused.value)
    wait_for(lambda: len(Server.asked) == requests)


def test_a_disk_that_takes_nothing_is_no_fault_of_the_sources(server: str, tmp_path: Path) -> None:
    Server.held["/a.txt"] = RIGHT
    (tmp_path / "toy").write_text("a file where the folder should be")
    with pytest.raises(Refused, match=r"toy.* could not be written: Not a directory"):
        toy(Source(server)).ensure([tmp_path / "toy" / "a.txt"])


# Mirrors in turn


def test_the_second_place_is_asked_where_the_first_is_down(
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
        (packed({"in/a.txt": b"changed"}), "a.txt there has the sha256 .*, expected dbdb7086ffe4"),
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
    assert [path for path in tmp_path.rglob("*") if path.is_file() and ".fetching" not in path.parts] == []
    Server.held["/3/toy.tgz"] = packed({"in/a.txt": RIGHT})
    toy(*alone.sources, inside(f"{server}/3/toy.tgz")).ensure([path])
    assert path.read_bytes() == RIGHT


@pytest.mark.parametrize("half", [b"wrong", b"wrong" * 99], ids=["beginning", "longer than the whole"])
def test_a_half_that_does_not_fit_is_begun_anew(server: str, tmp_path: Path, half: bytes) -> None:
    path = tmp_path / "toy" / "a.txt"
    Server.held["/a.txt"] = RIGHT
    path.parent.mkdir()
    (path.parent / "a.txt.part").write_bytes(half)
    toy(Source(server)).ensure([path])
    assert path.read_bytes() == RIGHT and Server.asked[-1] == ("/a.txt", None)


def test_what_one_place_has_given_stays(server: str, tmp_path: Path) -> None:
    """Files fetched from one mirror stay when another mirror has to supply the rest."""
    Server.held = {"/1/a.txt": b"a", "/2/a.txt": b"not a", "/2/b.txt": b"b"}
    sums = {f"{name}.txt": hashlib.sha256(name.encode()).hexdigest() for name in "ab"}
    Files("toy", "toy", (Source(f"{server}/1"), Source(f"{server}/2")), sums).ensure([tmp_path / name for name in sums])
    assert [(tmp_path / name).read_text() for name in sums] == ["a", "b"]
    assert [path for path, _ in Server.asked] == ["/1/a.txt", "/1/b.txt", "/2/b.txt"]


def test_a_zip_is_unpacked_too(server: str, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("in/a.txt", RIGHT)
        made.writestr("in/b.txt", b"another")
    Server.held["/toy.zip"] = buffer.getvalue()
    toy(inside(f"{server}/toy.zip")).ensure([tmp_path / "toy" / "a.txt"])
    assert [path.read_bytes() for path in tmp_path.rglob("*.txt")] == [RIGHT]


def test_two_processes_fetch_one_after_the_other(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highway.data.download.LOOK_AGAIN", 0.01)
    Server.held["/a.txt"] = RIGHT
    path = tmp_path / "toy" / "a.txt"
    path.parent.mkdir()
    with in_turn(path.parent):
        second = threading.Thread(target=lambda: toy(Source(server)).ensure([path]))
        second.start()
        second.join(0.2)
        assert second.is_alive() and not Server.asked
        path.write_bytes(RIGHT)  # as if the first process had fetched it
    second.join()
    assert not Server.asked


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
