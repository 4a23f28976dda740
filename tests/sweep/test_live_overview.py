"""The progress of a sweep: its table and lines as a user sees them, and the time that it says is left."""

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from highway.cards.tasks import TASKS
from highway.ledger.lease import HeldLease
from highway.run.progress import Progress
from highway.sweep.estimate import Estimate
from highway.sweep.live_overview import LINE, LiveOverview, shortened
from highway.sweep.planned_run import Planned
from tests.support.sweeps import planned_run
from tests.support.tables import write_ended

Now = Callable[[float], None]
Advance = Callable[..., None]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Now:
    """Return a function that sets the clock of the sweep, in seconds; it begins at 0."""
    clock = SimpleNamespace(now=0.0)
    stand_in = SimpleNamespace(monotonic=lambda: clock.now)
    for module in ("highway.sweep.estimate", "highway.sweep.live_overview", "highway.run.progress"):
        monkeypatch.setattr(f"{module}.time", stand_in)
    return lambda now: setattr(clock, "now", now)


@pytest.fixture
def advance() -> Iterator[Advance]:
    """Return a function that writes the progress of a run into its lease, which this process holds."""
    held: dict[Planned, HeldLease] = {}
    with ExitStack() as leases:

        def write(run: Planned, step: int, left: float | None = None, **numbers: float) -> None:
            if run not in held:
                held[run] = leases.enter_context(run.directory.leased())
            known = {} if left is None else {"seconds_left": left}
            held[run].progress = {"step": step, "steps": 200, "seconds": 1.0, "tokens_per_second": 1234.5, **known}
            held[run].progress |= numbers
            held[run]._write()

        yield write


def runs(folder: Path, *seeds: int, row: str = "row") -> list[Planned]:
    return [planned_run(folder / row / f"seed{seed}", f"{row} seed {seed}") for seed in seeds]


def finish(run: Planned, **changes: Any) -> None:
    write_ended(run.directory.path, "finished", **changes)


def shown(overview: LiveOverview, waiting: list[Planned], ours: list[Planned]) -> list[str]:
    """Return the lines of the live table, without colours."""
    with overview.console.capture() as text:
        overview.console.print(overview.table(overview.look(waiting, ours)))
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text.get()).splitlines()]


LONG = "highway_t1 baseline gate.reads=normalised model.dropout=0.3 optimizer.lr=0.0001"


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: Now, advance: Advance, width: int
) -> None:
    """At the beginning, in the middle and at the end of a sweep. No line is too long, and no head is cut off."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    every = runs(tmp_path, 1, 2, 3, 4, 5, 6, row=LONG)
    overview = LiveOverview(every, slots=2)
    for run in every[:2]:
        overview.started(run)
    begun = shown(overview, every[2:], every[:2])
    assert begun[0].split() == ["run", "state"] and len(begun) == 9
    assert [line.split()[-1] for line in begun[2:8]] == ["starting"] * 2 + ["waiting"] * 4
    assert begun[-1] == "6 runs: 2 starting, 4 waiting"

    at(100)
    advance(every[0], 200, 5.0)
    shown(overview, every[2:], every[:2])
    at(106)
    finish(every[0])
    overview.ended(every[0], 0)
    advance(every[1], 200, 4.0, train_loss=4.25, valid_loss=4.5)
    overview.started(every[2])
    shown(overview, every[3:], every[1:3])
    advance(every[2], 50, 90.0, train_loss=4.5, valid_loss=4.75)
    halfway = shown(overview, every[3:], every[1:3])
    assert max(map(len, halfway)) == width, "the names fill it"
    heads = ["train loss", "valid loss", "tokens/s"] if width == 120 else ["valid loss"]
    assert re.split(r"\s{2,}", halfway[0]) == ["run", "state", "step", *heads, "time left"]
    losses = ["4.5000", "4.7500", "1,234"] if width == 120 else ["4.7500"]
    assert halfway[3].split()[-len(losses) - 3 :] == ["running", "50/200", *losses, "1:31"]  # the first was 1 s late
    assert re.search(r"testing +200/200 .* 0:05$", halfway[2]) and halfway[4].endswith("waiting")
    assert halfway[-1] == "6 runs: 1 finished, 1 running, 1 testing, 3 waiting; about 3:29 left"

    for run in every[1:]:
        finish(run)
    exiting = shown(overview, [], every[1:])
    assert exiting == ["6 runs: 6 finished"], "their records are written, although their processes exit"
    for lines, listed in ((begun, every), (halfway, every[1:])):
        names = [line.split("  ")[0] for line in lines[2:-1]]
        assert names == [shortened(run.label, len(names[0])) for run in listed] and max(map(len, lines)) <= width


def test_a_narrow_terminal_keeps_step_and_time_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, advance: Advance
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    every = runs(tmp_path, 1, 2, 3, row=LONG)
    overview = LiveOverview(every, slots=1)
    for run in every[:2]:
        advance(run, 50, 30.0, train_loss=4.5)
    lines = shown(overview, every[1:], every[:1])
    assert lines[0].split() == ["run", "step", "time", "left"] and max(map(len, lines[:5])) <= 60
    assert " ".join(lines[5:]).startswith("3 runs: 1 running, 1 running elsewhere, 1 waiting; about ")


def test_lines_where_there_is_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], at: Now, advance: Advance
) -> None:
    every = runs(tmp_path, 1, 2, 3, 4, 5, 6, row=2 * LONG)
    overview = LiveOverview(every, slots=5)
    for run in every[:5]:
        overview.started(run)
        advance(run, 50, 300.0, train_loss=4.5, valid_loss=4.75)
    for now in range(0, 121):
        at(now)
        overview.update(every[5:], every[:5])
    finish(every[0], metrics={f"test_{name}": {"best": 1.25, "last": 1.5} for name in "abcdefgh"})
    overview.ended(every[0], 0)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines[:5]] == ["started"] * 5
    assert len(lines) == 5 + 2 * 4 + 1, "twice a summary and three of the runs"
    assert lines[5].startswith("6 runs: 5 running, 1 waiting")
    assert re.search(r" {10}highway_t1 .*….* seed 1: step 50/200, time left 4:00$", lines[6])
    assert lines[-1].startswith("finished  highway_t1") and "test_a 1.25  test_b 1.25" in lines[-1]
    assert lines[-1].endswith("(0:01)") and max(map(len, lines)) <= LINE


def test_a_state_is_true_at_each_moment(tmp_path: Path, at: Now, advance: Advance) -> None:
    """The record of an earlier start counts until the run is seen to run again; then its new one counts."""
    (run,) = runs(tmp_path, 1)
    overview = LiveOverview([run], 1)
    write_ended(run.directory.path, "failed", error="x")
    states = [overview.look([run], [])[run], overview.look([], [run])[run]]
    with run.directory.leased() as lease:
        states.append(overview.look([], [run])[run])
        for step in (1, 200):
            lease.progress = {"step": step, "steps": 200, "tokens_per_second": 1.0}
            lease._write()
            states.append(overview.look([], [run])[run])
    states.append(overview.look([], [run])[run])
    assert states == ["waiting", "starting", "starting", "running", "testing", "failed"]
    overview.ended(run, 1)
    assert overview.summary(overview.look([], [])) == "1 run: 1 failed"
    for queued, stopped in ((True, "queued"), (False, "interrupted")):  # Slurm runs a job again that it has preempted
        (run,) = runs(tmp_path, 2 + queued)
        overview = LiveOverview([run], 1, queued)
        before = overview.look([], [run])[run]
        with run.directory.leased():
            overview.look([], [run])
        write_ended(run.directory.path, "interrupted")
        assert (before, overview.look([], [run])[run]) == ("queued" if queued else "starting", stopped)


def test_a_killed_run_says_what_to_type(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Linux kills what takes too much memory, without a word: the sweep says what needs less."""
    run = planned_run(tmp_path / "seed1", accumulate=2)
    overview = LiveOverview([run], 1)
    overview.ended(run, -signal.SIGKILL)
    overview.ended(run, -signal.SIGSEGV)
    killed, crashed = capsys.readouterr().err.splitlines()
    assert "killed by signal 9, as systems do when memory runs out; if that is why, type trainer.accumulate=3" in killed
    assert "killed by signal 11; " in crashed and "memory" not in crashed


def test_nothing_is_said_before_a_measurement(tmp_path: Path, at: Now) -> None:
    first, second = runs(tmp_path, 1, 2)
    estimate = Estimate()
    estimate.begin(first)
    at(20)
    states = {first: "running", second: "waiting"}
    estimate.measure(first, {"step": 1, "steps": 200, "seconds": 3.0})
    assert estimate.left(first) is None and estimate.left_of_sweep(states, 1) is None
    estimate.measure(first, {"step": 2, "steps": 200, "seconds": 3.0, "seconds_left": 60.0})
    assert estimate.left_of_sweep(states, 1) == 60 + 80, "a waiting run also has to start up"


def test_equal_runs_take_turns_in_the_slots(tmp_path: Path, at: Now) -> None:
    """Three runs of ten minutes in two slots take twenty minutes, not fifteen."""
    every = runs(tmp_path, 1, 2, 3)
    estimate = Estimate()
    for run in every[:2]:
        estimate.begin(run)
        estimate.measure(run, {"step": 2, "seconds": 0.0, "seconds_left": 600.0})
    states = dict(zip(every, ("running", "running", "waiting"), strict=True))
    assert estimate.left_of_sweep(states, 2) == 1200
    assert estimate.left_of_sweep(states, 3) == 600
    at(599)
    assert estimate.left_of_sweep(states, 2) == 601
    assert estimate.left_of_sweep({**states, every[0]: "finished"}, 2) == 600, "its process is exiting"


def test_a_finished_seed_predicts_another(tmp_path: Path, at: Now) -> None:
    """It predicts the whole time of a process, and how much later than it expected a running one ends."""
    first, second = runs(tmp_path, 1, 2, row="large")
    (other,) = runs(tmp_path, 1, row="small")
    estimate = Estimate()
    for run in (first, other):
        estimate.begin(run)
    at(10)
    estimate.measure(other, {"step": 2, "seconds": 5.0, "seconds_left": 10.0})
    at(100)
    estimate.measure(first, {"step": 2, "seconds": 90.0, "seconds_left": 0.0})
    at(130)
    estimate.end(first, 100.0)
    assert estimate.left(second) == 130
    assert estimate.left_of_sweep({second: "waiting"}, 1) == 130
    estimate.begin(second)
    at(150)
    assert estimate.left(second) == 110, "while it starts"
    estimate.measure(second, {"step": 2, "seconds": 5.0, "seconds_left": 50.0})
    at(160)
    assert estimate.left(second) == 50 - 10 + 30
    estimate.end(other, None)
    assert estimate.left_of_sweep({other: "waiting"}, 1) == pytest.approx((130 + 70) / 2), "the mean of what is known"


def test_the_slowest_run_is_waited_for(tmp_path: Path, at: Now) -> None:
    """A run of another sweep takes none of our slots, and the sweep waits for it, too."""
    quick, slow = (runs(tmp_path, 1, row=row)[0] for row in ("quick", "slow"))
    estimate = Estimate()
    for run, left in ((quick, 5.0), (slow, 500.0)):
        estimate.measure(run, {"step": 2, "seconds": 1.0, "seconds_left": left})
    for states in ({quick: "running", slow: "running"}, {quick: "running", slow: "running elsewhere"}):
        assert estimate.left_of_sweep(states, 8) == 500


def test_a_resumed_run_predicts_a_whole_one(tmp_path: Path, at: Now) -> None:
    resumed, whole = runs(tmp_path, 1, 2)
    estimate = Estimate()
    estimate.begin(resumed)
    at(10)
    estimate.measure(resumed, {"step": 180, "seconds": 90.0, "seconds_left": 10.0})
    assert (estimate.left(resumed), estimate.left(whole)) == (10, 100)
    at(20)
    estimate.end(resumed, 100.0)
    assert estimate.left(whole) == 100


def test_a_run_foresees_its_validations_and_tests(at: Now) -> None:
    """The first step is slow and no measure. Here 1 s is a step and 5 s an evaluation, of which seven are ahead."""
    recorder = SimpleNamespace(
        steps=0, last_validation=-1, validation={}, train_loss=4.5, seconds=1.0, tokens_per_second=9.0
    )
    progress, trainer = Progress(recorder, None), SimpleNamespace(is_global_zero=False)  # type: ignore[arg-type]
    described = SimpleNamespace(task_card=TASKS["language"])
    module = SimpleNamespace(total_steps=100, data=SimpleNamespace(validate_every=25), experiment=described)
    now = 0.0
    for step in range(1, 26):
        now += 1.0 if step > 1 else 60.0
        at(now)
        recorder.steps = step
        progress.on_train_batch_end(trainer, module)  # type: ignore[arg-type]
        left = progress._numbers(module).get("seconds_left")
        assert left is None if step == 1 else left == 100 - step
    progress.on_validation_start(trainer, module)  # type: ignore[arg-type]
    at(now + 5.0)
    recorder.last_validation = 25
    progress.on_validation_end(trainer, module)  # type: ignore[arg-type]
    assert progress._numbers(module)["seconds_left"] == 75 + 5 * (3 + 2 * 2)
