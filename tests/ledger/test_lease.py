"""Leases have one holder at a time, and are taken over from a dead holder, on one machine and on a shared folder."""

import multiprocessing
import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from highway.errors import Held, Refused, Unwritable
from highway.ledger import lease
from highway.ledger.files import read_json, write_json
from highway.ledger.lease import Lease, leased
from highway.machine import this_machine
from tests.support.holders import holder, race
from tests.support.waiting import wait_for


def of_another_machine(folder: Path, seconds_ago: float) -> Path:
    path = folder / "1.json"
    folder.mkdir(parents=True)
    write_json(path, {"machine": "far", "host": "far", "pid": 1, "started": 1.0, "ended": False})
    set_age(path, seconds_ago)
    return path


def set_age(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


def test_one_holder_at_a_time_and_a_dead_one_is_followed(tmp_path: Path) -> None:
    process = holder(tmp_path)
    with pytest.raises(Refused, match=f"is being run by process {process.pid} on "), leased(tmp_path):
        pass
    process.kill()
    process.wait()
    latest = Lease.latest(tmp_path)
    assert latest is not None and not latest.alive and not latest.ended
    with leased(tmp_path) as held:
        assert held.path.name == "2.json"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["1.json", "2.json"]
    latest = Lease.latest(tmp_path)
    assert latest is not None and latest.ended


def test_of_many_at_once_one_wins(tmp_path: Path) -> None:
    """One of four processes takes over a dead holder's lease."""
    folder, won = tmp_path / "leases", tmp_path / "won"
    won.mkdir()
    of_another_machine(folder, seconds_ago=lease.STALE + 5)
    context = multiprocessing.get_context("spawn")
    meet = context.Barrier(4)
    racers = [context.Process(target=race, args=(folder, won, meet)) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert [path.read_text() for path in won.iterdir()] == ["2.json"]


def test_a_lease_of_another_machine_lives_while_it_beats(tmp_path: Path) -> None:
    """A holder sets the time of its lease every two seconds, so a time far ahead is not a holder's."""
    path = of_another_machine(tmp_path / "leases", seconds_ago=0)
    assert Lease(path).alive
    for seconds_ago in (lease.STALE + 1, -7 * lease.STALE):
        set_age(path, seconds_ago)
        assert not Lease(path).alive
    assert [actual.name for actual in path.parent.iterdir()] == ["1.json"]  # reading a lease leaves nothing behind


def test_a_stopped_process_keeps_its_lease(tmp_path: Path) -> None:
    process = holder(tmp_path)
    process.send_signal(signal.SIGSTOP)
    set_age(tmp_path / "1.json", lease.STALE + 5)
    assert Lease(tmp_path / "1.json").alive
    process.kill()
    process.wait()
    assert not Lease(tmp_path / "1.json").alive


@pytest.mark.parametrize("start", [{"started": 1.0}, {}])
def test_a_process_id_alone_does_not_keep_a_lease(start: dict[str, Any], tmp_path: Path) -> None:
    """The age decides if the id now belongs to another process, or if nothing tells when its process started."""
    path = tmp_path / "1.json"
    write_json(path, {"machine": this_machine(), "host": "here", "pid": os.getpid(), **start})
    assert Lease(path).alive
    set_age(path, lease.STALE + 5)
    assert not Lease(path).alive


def test_a_half_written_lease_counts_for_a_minute(tmp_path: Path) -> None:
    path = tmp_path / "1.json"
    path.write_text('{"run": "x/se')
    with pytest.raises(Held, match="being run by a process that has not yet written its name"), leased(tmp_path):
        pass
    set_age(path, lease.STALE + 5)
    with leased(tmp_path) as held:
        assert held.path.name == "2.json"


def test_half_a_lease_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("highway.ledger.lease.json.dump", full)
        with pytest.raises(Unwritable, match="could not be written: No space left"), leased(tmp_path):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_slept_takes_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Since this process read the folder, others have taken the number that it would take, and a later one."""
    before = Lease(of_another_machine(tmp_path / "leases", seconds_ago=lease.STALE + 5))
    for _ in range(2):
        with leased(tmp_path / "leases"):
            pass
    files = {path: path.read_text() for path in (tmp_path / "leases").iterdir()}
    assert len(files) == 3
    monkeypatch.setattr(Lease, "latest", lambda folder, run: before)
    with pytest.raises(Held, match="was taken by another process"), leased(tmp_path / "leases"):
        pass
    assert {path: path.read_text() for path in (tmp_path / "leases").iterdir()} == files


def test_progress_is_told_and_a_lost_claim_stops_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "BEAT", 0.05)
    with leased(tmp_path) as held:
        held.progress = {"step": 7}
        wait_for(lambda: read_json(held.path)["progress"] == {"step": 7})
    process = holder(tmp_path)
    write_json(tmp_path / "9.json", {"machine": "far", "ended": False})
    assert process.wait(timeout=20) == 1


def test_a_cell_stops_when_its_sweep_is_gone(tmp_path: Path) -> None:
    process = holder(tmp_path, HIGHWAY_SWEEP="1")  # a parent that this process does not have
    assert process.wait(timeout=20) == -signal.SIGTERM


def test_a_lease_belongs_to_a_run(tmp_path: Path) -> None:
    """The lease of a running run, copied with its directory, does not make the copy running."""
    with leased(tmp_path / "seed1", "x/seed1"):
        shutil.copytree(tmp_path / "seed1", tmp_path / "seed2")
        original, copy = (Lease.latest(tmp_path / name, f"x/{name}") for name in ("seed1", "seed2"))
        assert original and original.alive and copy and not copy.alive


def test_a_beat_survives_an_error_of_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network file system may fail for a moment; a lease without beats would be taken over."""
    listing, failures = lease._numbers, [OSError("stale"), OSError("stale")]

    def numbers(folder: Path) -> list[int]:
        if threading.current_thread() is not threading.main_thread() and failures:
            raise failures.pop()
        return listing(folder)

    monkeypatch.setattr(lease, "BEAT", 0.01)
    monkeypatch.setattr(lease, "_numbers", numbers)
    with leased(tmp_path) as held:
        wait_for(lambda: not failures)
        set_age(held.path, 100)
        wait_for(lambda: time.time() - held.path.stat().st_mtime < 50)  # it still beats
