"""plan=true: the cost of a sweep, estimated from records or a trial, without running anything."""

import dataclasses
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from highway.config.compose import experiment
from highway.ledger.directory import RunDirectory
from highway.machine import device_name
from highway.sweep import cost
from highway.sweep.cost import cost_of
from highway.sweep.plan import published
from highway.sweep.planned_run import Planned
from highway.tables.reading import load_table
from highway.timing.stopwatch import Entry
from tests.support.sweeps import inline
from tests.support.tables import put

TABLE = load_table("highway_t1")


def planned(outputs: Path, row_id: str, seed: int) -> Planned:
    arguments = (*TABLE.overrides(TABLE.row(row_id), "smoke", seed), f"outputs_dir={outputs}")
    described = experiment(list(arguments))
    return Planned(f"highway_t1 {row_id} seed {seed}", arguments, RunDirectory.of(described), described)


@pytest.fixture
def no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "operations_a_second", lambda *_: 1e9)


@pytest.mark.usefixtures("no_trial")
def test_rows_with_records_and_without(tmp_path: Path) -> None:
    put(tmp_path, "baseline", 1, 1.4, budget="smoke", cost={"device": device_name(cost._device()), "seconds": 50.0})
    planned_runs = [planned(tmp_path, row, seed) for row in ("baseline", "tanh") for seed in (1, 2)]
    baseline, tanh = cost.lines(planned_runs, set(planned_runs[1:]))
    assert (baseline.label, baseline.done, baseline.missing) == ("highway_t1 baseline", 1, 1)
    assert (baseline.seconds, baseline.source) == (50.0, "records")
    described = experiment(list(planned_runs[2].overrides))
    steps, taken = described.trainer.max_steps, cost_of(described)
    assert steps is not None and tanh.seconds == pytest.approx(steps * taken.operations * taken.tokens / 1e9)
    assert tanh.cost.of_gates > 0


@pytest.mark.usefixtures("no_trial")
def test_the_first_line_warns_of_days(tmp_path: Path) -> None:
    directory = planned(tmp_path, "tanh", 1)
    (line,) = cost.lines([directory], {directory})
    assert str(cost.layout([line])[0]).startswith("1 run to train, 0 done: about ")
    long = cost.layout([dataclasses.replace(line, seconds=3.0 * cost.DAY)])[0]
    assert str(long).startswith("More than a day: 3.0 days. 1 run to train")
    nothing = cost.layout([dataclasses.replace(line, done=1, missing=0)])[0]
    assert nothing == "0 runs to train, 1 done: nothing to do."


@pytest.mark.usefixtures("no_trial")
def test_runs_that_are_published_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan and a sweep say so, because a researcher may wait days for numbers that a report already has."""
    monkeypatch.setattr("highway.config.home.REFERENCE", reference := tmp_path / "reference")
    runs = [planned(tmp_path / "outputs", "tanh", seed) for seed in (1, 2, 3)]
    assert published(runs) == []
    put(reference, "tanh", 1, 1.4, budget="smoke")
    assert published(runs) == ["1 of these runs is published already: highway report shows it."]
    put(reference, "tanh", 3, 1.4, budget="smoke", status="diverged")
    cost.foresee(runs, runs, 1, Console(file=(shown := io.StringIO()), width=100))
    assert shown.getvalue().splitlines()[1] == "2 of these runs are published already: highway report shows them."


def test_published_times_of_a_gpu_that_is_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU, a plan says what a named one took."""
    monkeypatch.setattr("highway.config.home.REFERENCE", reference := tmp_path / "reference")
    runs = [planned(tmp_path / "outputs", "tanh", seed) for seed in (1, 2, 3)]
    put(reference, "tanh", 1, 1.4, budget="smoke", cost={"device": device_name("cpu"), "seconds": 5.0})
    assert cost.on_other_devices(runs) == []
    put(reference, "tanh", 2, 1.4, budget="smoke", cost={"device": "NVIDIA H200", "seconds": 849.0})
    assert cost.on_other_devices(runs) == ["1 published run of these took 14:09 on NVIDIA H200."]
    put(reference, "tanh", 3, 1.4, budget="smoke", cost={"device": "NVIDIA H200", "seconds": 1021.0})
    assert cost.on_other_devices(runs) == ["2 published runs of these took 14:09 to 17:01 on NVIDIA H200."]


def test_a_trial_trains_as_the_run_will(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU a long run is compiled, and so is its trial; the first steps, which compile, are not timed."""
    steps: list[str | None] = []

    class Counted(Entry):
        def build(self) -> Any:
            return SimpleNamespace(step=lambda batch: steps.append(self.compiled))

    monkeypatch.setattr(cost, "Entry", Counted)
    monkeypatch.setattr(cost, "TRIAL_SECONDS", 0.0)
    monkeypatch.setattr(cost, "mode_of", lambda described, device, updates: "default" if updates > 10 else None)
    tiny = experiment([*TABLE.overrides(TABLE.row("tanh"), "smoke", 1)])
    cost.operations_a_second(tiny, cost_of(tiny), 1, 20)
    assert steps == ["default"] * (cost.FIRST_STEPS + 1)
    steps.clear()
    cost.operations_a_second(tiny, cost_of(tiny), 1, 5)
    assert steps == [None] * 2


def test_a_trial_of_a_large_step_has_fewer_lanes() -> None:
    described = experiment(["model=transformer_xl", "dataset=enwik8", "trainer=xl_l6"])
    small = cost._smaller(described, cost_of(described))
    assert 1 <= small.dataset.train.lanes < described.dataset.train.lanes
    tiny = experiment([*TABLE.overrides(TABLE.row("tanh"), "smoke", 1)])
    assert cost._smaller(tiny, cost_of(tiny)) is tiny
    assert cost.operations_a_second(tiny, cost_of(tiny), 1) > 1e6


@pytest.mark.usefixtures("no_trial")
def test_missing_data_is_told(tmp_path: Path) -> None:
    arguments = (
        *TABLE.overrides(TABLE.row("tanh"), "paper", 1),
        f"outputs_dir={tmp_path}",
        f"data_dir={tmp_path / 'none'}",
    )
    described = experiment(list(arguments))
    planned_run = Planned("tanh seed 1", arguments, RunDirectory.of(described), described)
    (line,) = cost.lines([planned_run], {planned_run})
    assert line.seconds is None and line.source == "no data" and "ptb" in line.why
    assert cost.layout([line])[-1] == line.why


@pytest.mark.usefixtures("no_trial")
def test_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    overrides = ("table=highway_t1", "budget=smoke", "rows=tanh", "seeds=1,2", "plan=true")
    code, _ = inline(monkeypatch, tmp_path / "outputs", *overrides)
    shown = capsys.readouterr().out
    assert code == 0 and shown.startswith("2 runs to train, 0 done")
    assert {path.name for path in (tmp_path / "outputs").glob("*")} <= {"cache"}
