"""Settings chosen by validation: the rule, its sweeps, what stops them, and what reports say."""

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from highway.config.compose import experiment
from highway.errors import Refused
from highway.keys.yaml_file import read_yaml
from highway.ledger.directory import RunDirectory
from highway.ledger.record import read_record, write_record
from highway.report.collect import collect
from highway.report.details import details
from highway.report.publish import publish
from highway.report.status import row_status
from highway.sweep.planned_run import Planned
from highway.tables.choose import Trial, best
from highway.tables.reading import find, parse_table
from highway.tables.rows import with_choices, with_overrides
from highway.tables.table import Table
from highway.testing.runs import StopAt, curve, numbers, same_weights, trained
from tests.support.commands import TRAIN
from tests.support.sweeps import inline
from tests.support.tables import content
from tests.support.tuned import RECIPE, SWEEP, chosen_alike, outcomes
from tests.support.tuned import tuned as tuned
from tests.support.waiting import wait_for

LISTS = {"optimizer.lr": {"paper": [0.01, 1000], "own": [0.5]}, "model.dropout": [0.9, 0.0]}
BEST = ["optimizer.lr=0.5", "model.dropout=0.0"]
STEPS = ["trainer.max_steps=8", "trainer.validate_every=2", "trainer.log_every=2"]


def table(**choose: Any) -> Table:
    rows = [{"id": "a", "label": "A", "overrides": ["gate=none"]}]
    rule = {**LISTS, "by": "valid_bpc", **choose}
    return parse_table(content(id="tuned", recipe=RECIPE, rows=rows, choose=rule, budgets={"smoke": STEPS}))


TUNED = table()


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that trains a table in this process."""

    def train(tuned: Table, outputs: Path, *overrides: str) -> str:
        monkeypatch.setattr("highway.sweep.plan.load_table", lambda _: tuned)
        code, output = inline(monkeypatch, outputs, "table=highway_t1", "budget=smoke", *overrides)
        assert code == 0, output
        return output

    return train


def choices_of(tuned: Table, budget: str, outputs: Path) -> list[tuple[str, ...]]:
    """Return the lines of the report's table of choices."""
    grids = details(collect(tuned, budget, outputs))
    return [line.texts for grid in grids if "chosen" in grid.heads for line in grid.lines]


def chosen(tuned: Table, outputs: Path) -> list[str] | None:
    return with_choices(tuned, "smoke", outputs)[1]["a"].chosen


def alone(tuned: Table, outputs: Path, combination: list[str], seed: int = 1, **settings: Any) -> Any:
    """Return the experiment of a trial."""
    row = tuned.rows[0].model_copy(update={"chosen": {"smoke": combination}})
    changed = [f"trainer.{key}={value}" for key, value in settings.items()]
    return experiment([*tuned.overrides(row, "smoke", seed), *changed, f"outputs_dir={outputs}"])


def test_the_best_validation_wins_and_its_run_is_the_undisturbed_run(sweep: Any, tmp_path: Path) -> None:
    """Six trials, of which two diverge at once; the winner is known, and further seeds take its settings."""
    assert choices_of(TUNED, "smoke", tmp_path / "tried")[0][:2] == ("A", "not yet: 6 trials to train")
    output = sweep(TUNED, tmp_path / "tried", "seeds=1,2")
    assert "6 runs: 0 finished already, 6 to train. They are trials, which choose settings of tuned a." in output
    assert "2 runs: 1 finished already, 1 to train. Their settings were chosen by 6 trials." in output
    assert chosen(TUNED, tmp_path / "tried") == BEST
    statuses = sorted(RunDirectory(path.parent).status for path in tmp_path.glob("tried/cells/*/seed1/result.json"))
    assert statuses == ["diverged"] * 2 + ["finished"] * 4
    assert [path.name for path in (tmp_path / "tried" / "tuned" / "smoke" / "a").iterdir()] == ["seed1", "seed2"]

    whole, record = trained(alone(TUNED, tmp_path / "undisturbed", BEST))
    winner = RunDirectory(tmp_path / "tried" / "cells" / whole.name / "seed1")
    assert same_weights(winner.best, whole.best) and same_weights(winner.last, whole.last)
    assert curve(winner) == curve(whole)
    tried = read_record(winner.path / "result.json")
    assert tried is not None and numbers(tried) == numbers(record)
    on_wandb = [read_yaml(path)["logger"] for path in tmp_path.glob("tried/cells/*/seed1/config.yaml")]
    assert {about["group"] for about in on_wandb} == {"tuned"}
    assert len({about["run"] for about in on_wandb}) == 6 and all(
        about["run"].startswith("a optimizer.lr=") for about in on_wandb
    )
    assert "1 run: 1 finished already, 0 to train." in sweep(TUNED, tmp_path / "tried"), "a choice is made once"

    ((_, setting, by, origin, compared),) = choices_of(TUNED, "smoke", tmp_path / "tried")
    assert (setting, by, origin) == ("0.5 0.0", "valid_bpc", "our own list") and "1000 0.9 (diverged)" in compared
    assert [line.text for line in row_status(TUNED, TUNED.rows[0], "smoke", tmp_path / "tried")] == [
        "finished: seeds 1, 2",
        "settings chosen; other trials: 3 finished, 2 diverged",
    ]


def test_a_stated_choice_trains_no_trial(sweep: Any, tmp_path: Path) -> None:
    row = {"id": "a", "label": "A", "overrides": ["gate=none"]}
    stated = [{**row, "chosen": {"smoke": ["optimizer.lr=0.01", "model.dropout=0.9"]}}]
    rule = {**LISTS, "by": "valid_bpc"}
    known = parse_table(content(id="tuned", recipe=RECIPE, rows=stated, choose=rule, budgets={"smoke": STEPS}))
    assert "1 run: 0 finished already, 1 to train." in sweep(known, tmp_path)
    ((_, setting, *_, compared),) = choices_of(known, "smoke", tmp_path)
    assert setting == "0.01 0.9" and "0.5 0.0 (waiting)" in compared

    assert "5 runs: 0 finished already, 5 to train." in sweep(TUNED, tmp_path), "without it the other five are trained"
    with pytest.raises(Refused, match="is not among what `choose` compares"):
        parse_table(content(recipe=RECIPE, rows=[{**row, "chosen": {"paper": ["optimizer.lr=3"]}}], choose=rule))
    with pytest.raises(Refused, match="`chosen` needs `choose`"):
        parse_table(content(recipe=RECIPE, rows=[{**row, "chosen": {"paper": ["optimizer.lr=3"]}}]))


@pytest.mark.parametrize("step", [1, 7])
def test_a_trial_that_is_stopped_goes_on(sweep: Any, tmp_path: Path, step: int) -> None:
    """The best trial is stopped during a step, its record is lost as by kill -9, and the sweep goes on from there."""
    two = table(**{"optimizer.lr": [0.01, 0.5], "model.dropout": [0.0]})
    sweep(two, tmp_path / "calm")
    directory, record = trained(alone(two, tmp_path / "stopped", BEST), StopAt(step, signal.SIGTERM))
    assert record["steps"] == step
    (directory.path / "result.json").unlink()
    sweep(two, tmp_path / "stopped")
    assert chosen(two, tmp_path / "stopped") == chosen(two, tmp_path / "calm") == BEST
    calm = RunDirectory(tmp_path / "calm" / "cells" / directory.name / "seed1")
    assert same_weights(calm.last, directory.last) and curve(calm) == curve(directory)


def test_a_failed_trial_loses_and_may_be_tried_again(sweep: Any, tmp_path: Path) -> None:
    two = table(**{"optimizer.lr": [0.01, 0.5], "model.dropout": [0.0]})
    failed, record = trained(alone(two, tmp_path, BEST))
    write_record(failed.path, {**record, "status": "failed", "error": "the machine caught fire"})
    sweep(two, tmp_path)
    assert chosen(two, tmp_path) == ["optimizer.lr=0.01", "model.dropout=0.0"]
    sweep(two, tmp_path, "retry_failed=true")
    assert chosen(two, tmp_path) == BEST


def test_nothing_is_trained_after_all_trials_have_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = table(**{"optimizer.lr": [0.01, 0.5], "model.dropout": [0.0]})
    for combination in two.rows[0].choose.combinations:  # type: ignore[union-attr]
        failed, record = trained(alone(two, tmp_path, combination))
        write_record(failed.path, {**record, "status": "failed", "error": "the machine caught fire"})
    monkeypatch.setattr("highway.sweep.plan.load_table", lambda _: two)
    code, output = inline(monkeypatch, tmp_path, "table=highway_t1", "budget=smoke", "seeds=1,2")
    assert code == 1 and output.count("failed (the machine caught fire)") == 2


def test_a_failed_trial_is_published_and_a_typed_setting_is_no_choice(sweep: Any, tmp_path: Path) -> None:
    two = table(**{"optimizer.lr": [0.01, 0.5], "model.dropout": [0.0]})
    failed, record = trained(alone(two, tmp_path / "here", BEST))
    write_record(failed.path, {**record, "status": "failed", "error": "the machine caught fire"})
    failed.curves.unlink()  # as before the first step
    sweep(two, tmp_path / "here")
    assert len(publish(two, "smoke", tmp_path / "here", tmp_path / "there").copied) == 2
    assert chosen(two, tmp_path / "there") == ["optimizer.lr=0.01", "model.dropout=0.0"]
    _, typed = with_overrides(two, ["smoke"], ["optimizer.lr=0.1"]).rows
    assert typed.choose is None


def test_no_choice_reads_a_test_metric(sweep: Any, tmp_path: Path) -> None:
    sweep(table(), tmp_path)
    for path in tmp_path.glob("cells/*/seed1/result.json"):
        record = json.loads(path.read_text())
        if record["status"] == "finished":
            good = 1e-3 if BEST[0] not in record["command"] else 20.0  # the others now look better
            metrics = {name: values for name, values in record["metrics"].items() if not name.startswith("test")}
            metrics["test_loss"] = {"best": good, "last": good}
            write_record(path.parent, {**record, "metrics": metrics})
    assert chosen(table(), tmp_path) == BEST


def test_published_trials_choose_for_a_sweep_and_stay_as_they_are(
    sweep: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a trial was begun here: the published one has ended."""
    published, here = tmp_path / "published", tmp_path / "here"
    sweep(TUNED, published)
    before = {path: path.read_bytes() for path in published.rglob("result.json")}
    monkeypatch.setattr("highway.config.home.REFERENCE", published)
    begun, _ = trained(alone(TUNED, here, BEST), StopAt(3, signal.SIGTERM))
    output = sweep(TUNED, here, "seeds=2,3")
    assert "2 runs: 0 finished already, 2 to train." in output
    assert len(list(here.glob("cells/*/*"))) == 3 and begun.status == "interrupted"
    assert {path: path.read_bytes() for path in published.rglob("result.json")} == before

    sweep(table(**{"optimizer.lr": [0.01, 0.5], "model.dropout": [0.0]}), tmp_path / "debugged", "debug=few")
    assert len(list(tmp_path.glob("debugged/debug/*/seed1"))) == 2, "they do not choose for runs of a few steps"


def test_a_plan_does_not_count_published_trials(sweep: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short, longer = (table(**{"optimizer.lr": rates, "model.dropout": [0.0, 0.1]}) for rates in ([0.5], [0.5, 0.4]))
    sweep(short, tmp_path / "published")
    monkeypatch.setattr("highway.config.home.REFERENCE", tmp_path / "published")
    missing: list[Planned] = []
    monkeypatch.setattr("highway.sweep.cost.foresee", lambda _, planned, *__: missing.extend(planned))
    sweep(longer, tmp_path / "here", "plan=true")
    assert [run.label for run in missing] == [
        "tuned a optimizer.lr=0.4 model.dropout=0.0 seed 1",
        "tuned a optimizer.lr=0.4 model.dropout=0.1 seed 1",
        "tuned a seed 1",  # the row, with the first of its settings until one is chosen
    ]


def test_rows_that_are_not_tuned_alike_are_named() -> None:
    rows = [{"id": name, "label": name.upper(), "overrides": []} for name in "ab"]
    rows[1]["choose"] = {"optimizer.lr": [1, 2], "by": "valid_bpc"}
    tuned = parse_table(content(recipe=RECIPE, rows=rows, choose={"optimizer.lr": [1, 2, 3], "by": "valid_bpc"}))
    (grid,) = (grid for grid in details(collect(tuned, "paper", Path("nothing"))) if "chosen" in grid.heads)
    assert grid.note == "Not tuned alike: most rows have 3 trials; B 2 trials."


def test_a_grid_chooses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    overrides = (*RECIPE, *STEPS, "budget=smoke", "gate=none,sdu_tanh", "optimizer.lr=0.01,0.5")
    code, output = inline(monkeypatch, tmp_path, "name=rates", "choose=optimizer.lr", "seed=1,2", *overrides)
    assert code == 0, output
    assert len(list(tmp_path.glob("cells/*/*/result.json"))) == 6, "two gates; two trials of seed 1, and one of seed 2"
    lines = choices_of(find("rates", tmp_path), "smoke", tmp_path)
    assert lines[0][:2] == ("gate=none", "0.5 (at the edge of the list)")
    assert "gate=none,False,optimizer.lr=0.5," in (tmp_path / "report" / "rates" / "smoke" / "table.csv").read_text()
    code, output = inline(monkeypatch, tmp_path, "choose=model.width", *overrides)
    assert code == 2


def test_a_grid_that_chooses_keeps_what_is_typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Settings that change no number, such as the folder of the outputs, are in no table that a grid makes."""
    typed = (f"outputs_dir={tmp_path / 'typed'}", "trainer.threads=1", "trainer.test_curve=true", "budget=smoke")
    overrides = (*RECIPE, *STEPS, *typed, "optimizer.lr=0.01,0.5", "choose=optimizer.lr", "title=Large, or small")
    code, output = inline(monkeypatch, tmp_path / "usual", *overrides)
    assert code == 0, output
    assert not list(tmp_path.glob("usual/cells/*"))
    settings = [read_yaml(path)["trainer"] for path in tmp_path.glob("typed/cells/*/*/config.yaml")]
    assert len(settings) == 2 and all((about["threads"], about["test_curve"]) == (1, True) for about in settings)
    (page,) = tmp_path.glob("typed/report/*/smoke/table.md")
    assert ": Large, or small\n" in page.read_text(), "a title may have a comma"


def test_a_budget_without_rows_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = [{"id": "a", "label": "A", "overrides": ["gate=none"], "budgets": ["paper"]}]
    tuned = parse_table(content(id="tuned", recipe=RECIPE, rows=rows, budgets={"paper": [], "smoke": STEPS}))
    monkeypatch.setattr("highway.sweep.plan.load_table", lambda _: tuned)
    code, _ = inline(monkeypatch, tmp_path, "table=highway_t1", "budget=smoke")
    assert code == 2


# The rule by itself


def trials(*ends: float | str) -> list[Trial]:
    """Return a trial for each end: the validation of a finished one, or another status."""
    return [
        Trial(
            [f"model.width={number}"],
            RunDirectory(Path(str(number))),
            end if isinstance(end, str) else "finished",
            None if isinstance(end, str) else end,
        )
        for number, end in enumerate(ends)
    ]


@pytest.mark.parametrize(
    ("ends", "better", "winner"),
    [
        ([2.0, 1.0, 1.0], "lower", 1),  # of equal values the first in the order of the table
        ([2.0, 1.0, 2.0], "higher", 0),
        (["diverged", 3.0, "failed"], "lower", 1),
        (["diverged", 3.0, "failed"], "higher", 1),
        (["failed", "diverged"], "lower", 1),
        ([math.nan, 3.0], "lower", 1),
    ],
)
def test_the_winner(ends: list[float | str], better: str, winner: int) -> None:
    among = trials(*ends)
    assert best(among, better) == among[winner].combination


@pytest.mark.parametrize("status", ["waiting", "running", "interrupted"])
def test_nothing_is_chosen_before_every_trial_has_ended(status: str) -> None:
    assert best(trials(1.0, status), "lower") is None
    assert best(trials("failed", "failed"), "lower") is None


# Sweeps in processes of their own


def started(outputs: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, str(TRAIN), "-m", *SWEEP, "hydra.launcher.slots=2"]
    surroundings = {**os.environ, "HIGHWAY_OUTPUTS": str(outputs)}
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=surroundings, text=True, start_new_session=True, **pipes)  # type: ignore[call-overload, no-any-return]


def told(sweep: "subprocess.Popen[str]") -> str:
    """Wait for a sweep that ends well; return its messages."""
    _, errors = sweep.communicate(timeout=300)
    assert sweep.returncode == 0, errors
    return errors


@pytest.mark.slow
@pytest.mark.usefixtures("tuned")
def test_sweeps_that_are_killed_and_share_the_trials(tmp_path: Path) -> None:
    """A sweep is killed in its first trial and after it; two sweeps at once end what is left, each run once."""
    calm, hurt = tmp_path / "calm", tmp_path / "hurt"
    told(started(calm))
    assert sorted(outcomes(calm).values()) == ["diverged"] + ["finished"] * 3
    moments: list[Callable[[], bool]] = [
        lambda: any(hurt.glob("cells/*/*/checkpoints/*")),
        lambda: "finished" in outcomes(hurt).values(),
    ]
    for moment in moments:
        sweep = started(hurt)
        wait_for(lambda sweep=sweep, moment=moment: moment() or sweep.poll() is not None, seconds=200)  # type: ignore[misc]
        os.killpg(sweep.pid, signal.SIGKILL)
        sweep.communicate()
    both = [started(hurt), started(hurt)]
    for sweep in both:
        told(sweep)
    assert chosen_alike(hurt, calm)
    logs = "".join(log.read_text() for log in hurt.glob("cells/*/*/log.txt"))
    assert logs.count(": finished") <= 3, "each of two trials, and seed 2 of the best, has ended once"


# What a table file may not say


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"by": "test_bpc"}, "choose.by=test_bpc is unknown. .*Available: valid_loss"),
        ({"by": "valid_bpx"}, "tuned: choose.by=valid_bpx is unknown. Did you mean 'valid_bpc'"),
        ({"by": "valid_accuracy"}, "do not measure valid_accuracy. They measure valid_loss, valid_bpc"),
        ({"optimizer.lr": [1], "model.dropout": [0]}, "1 combination leaves nothing to choose"),
        ({"optimizer.lr": [1, 1]}, "is given twice"),
        ({"optimizer.lr": 1}, r"choose\.optimizer\.lr=1 must be a list of values"),
        ({"optimizer.lr": {}}, "0 combinations leave nothing to choose. Name two values or more"),
        (
            {"optimizer.lr": {"author": [1, 2]}},
            r"lr={'author': \[1, 2\]} must be .* for each source, as in {paper: \[0\.1\], own",
        ),
        ({"optimizer.lr": list(range(99))}, "more than 64 combinations"),
        ({"budgets": ["mini"]}, "tuned, row a: there is no budget 'mini'. Available: smoke"),
        ({"gate.kernel": [3, 5], "trainer.max_steps": [1, 2]}, "trainer.max_steps is chosen, but row a or a budget"),
    ],
)
def test_what_a_choice_may_have_wrong(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        table(**changes)


def test_a_data_set_without_a_validation_split_cannot_choose() -> None:
    pixels = ["dataset=mnist", "trainer=pixels"]
    with pytest.raises(Refused, match="They have no validation split: hold out"):
        parse_table(
            content(
                recipe=pixels,
                columns=[{"metric": "test_accuracy"}],
                choose={"optimizer.lr": [1, 2], "by": "valid_accuracy"},
            )
        )
