"""The core of the launchers, with jobs that end as the test says."""

import signal
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from highway.errors import Held
from highway.ledger.directory import RunDirectory
from highway.sweep import launcher
from highway.sweep.inline import Call, InlineLauncher
from highway.sweep.launcher import Job, Launcher
from highway.sweep.live_overview import LiveOverview
from highway.sweep.planned_run import Planned
from tests.support.sweeps import planned_run
from tests.support.tables import write_ended


class Scripted(Launcher):
    """A launcher without slots: the jobs that it starts end with these exit codes, one after another."""

    def __init__(self, *codes: int) -> None:
        super().__init__()
        self.codes = list(codes)

    def prepare(self, to_run: Sequence[Planned], planned: int) -> int:
        return 1

    def start(self, to_run: Sequence[Planned]) -> Iterable[tuple[Planned, Job]]:
        for planned in to_run:
            if (code := self.codes.pop(0)) == 0:
                write_ended(planned.directory.path, "finished")
            yield planned, Call(partial(int, code))


@pytest.fixture(autouse=True)
def ends(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Return the exit codes of which the overview is told, None for a run that another sweep has ended."""
    codes: list[int | None] = []
    monkeypatch.setattr(launcher, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(LiveOverview, "ended", lambda _, planned, code: codes.append(code))
    return codes


@pytest.fixture
def run(tmp_path: Path) -> Planned:
    return planned_run(tmp_path / "seed1")


@pytest.mark.parametrize(("codes", "end"), [((2, 0), 0), ((2, 2), 2), ((1,), 1)])
def test_a_run_that_was_refused_has_one_second_try(
    run: Planned, ends: list[int | None], codes: tuple[int, ...], end: int
) -> None:
    """Another process may have had its lease, and have ended before we look."""
    scripted = Scripted(*codes)
    scripted.launch_runs([run], 1, False)
    assert (ends, scripted.codes) == ([end], [])


def test_a_run_that_another_sweep_has_finished_is_not_started_again(run: Planned, ends: list[int | None]) -> None:
    scripted = Scripted(2)
    start = scripted.start

    def finished_elsewhere(to_run: Sequence[Planned]) -> Iterable[tuple[Planned, Job]]:
        for planned, job in start(to_run):
            write_ended(planned.directory.path, "finished")
            yield planned, job

    scripted.start = finished_elsewhere  # type: ignore[method-assign]
    scripted.launch_runs([run], 1, True)
    assert ends == [None], "by another sweep"


def test_a_sweep_leaves_signals_as_it_found_them(run: Planned) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Scripted(0).launch_runs([run], 1, False)
    assert signal.signal(signal.SIGTERM, before) == signal.SIG_IGN


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes an inline launcher whose runs end with these statuses, one after another."""
    monkeypatch.setattr("highway.sweep.inline.search_path", lambda _: [])
    monkeypatch.setattr("highway.sweep.inline.experiment", lambda _: None)

    def made(*statuses: str) -> InlineLauncher:
        ends = list(statuses)

        def run(_: Any, directory: RunDirectory, command: str) -> str:
            status = ends.pop(0)
            if status == "held":
                raise Held("another process")
            if status != "interrupted":
                write_ended(directory.path, status)
            return status

        monkeypatch.setattr("highway.training.run", run)
        launcher = InlineLauncher()
        launcher.config = None  # type: ignore[assignment]
        return launcher

    return made


def test_runs_in_this_process(inline: Any, tmp_path: Path) -> None:
    runs = [planned_run(tmp_path / name / "seed1", name) for name in ("a", "b", "c")]
    inline("held", "failed", "finished", "finished").launch_runs(runs, 3, False)
    assert sorted(run.directory.status for run in runs) == ["failed", "finished", "finished"]


def test_in_this_process_a_failure_or_an_interruption_ends_the_sweep(inline: Any, tmp_path: Path) -> None:
    runs = [planned_run(tmp_path / name / "seed1", name) for name in ("a", "b")]
    with pytest.raises(KeyboardInterrupt):
        inline("interrupted").launch_runs(runs, 2, False)
    inline("diverged").launch_runs(runs, 2, True)
    assert [run.directory.status for run in runs] == ["diverged", "waiting"]
