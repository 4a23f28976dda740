"""Settings chosen by validation: the rule, its sweeps, what stops them, and what reports say."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot as plt

from highway.config.compose import experiment
from highway.config.yaml_file import read_yaml
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.ledger.record import read_record, write_record
from highway.report.choice_figures import draw_panel
from highway.report.choices import described
from highway.report.collect import collect
from highway.report.figures import draw
from highway.report.formats import to_markdown
from highway.report.publish import publish
from highway.report.report import build_report
from highway.report.status import row_status
from highway.report.trials import with_choices
from highway.sweep.choose import Choose
from highway.sweep.chosen import WHOLE, Trial, decide, forecast
from highway.sweep.launch import InlineLauncher, Planned
from highway.sweep.reading import parse_table
from highway.sweep.table import Table
from highway.testing.runs import StopAt, curve, numbers, same_weights, trained
from tests.support.commands import TRAIN
from tests.support.sweeps import inline
from tests.support.tables import content
from tests.support.tuned import RECIPE, SWEEP, chosen_alike, outcomes
from tests.support.tuned import tuned as tuned
from tests.support.waiting import wait_for

LISTS = {"optimizer.lr": {"paper": [0.01, 1000], "own": [0.5]}, "model.dropout": [0.9, 0.0]}
BEST = ("optimizer.lr=0.5", "model.dropout=0.0")
STEPS = ["trainer.max_steps=8", "trainer.validate_every=2", "trainer.log_every=2"]


def table(**choose: Any) -> Table:
    rows = [{"id": "a", "label": "A", "overrides": ["gate=none"]}]
    rule = {**LISTS, "by": "valid_bpc", **choose}
    return parse_table(content(id="tuned", recipe=RECIPE, rows=rows, choose=rule, budgets={"smoke": STEPS}))


HALVING = table(halving=[0.25, 0.5])


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that trains a table in this process."""

    def train(tuned: Table, outputs: Path, *overrides: str) -> str:
        monkeypatch.setattr("highway.sweep.planner.load_table", lambda _: tuned)
        code, output = inline(monkeypatch, outputs, "table=highway_t1", "budget=smoke", *overrides)
        assert code == 0, output
        return output

    return train


def chosen(tuned: Table, outputs: Path) -> tuple[str, ...] | None:
    found = with_choices(tuned, "smoke", outputs)[1]["a"][1].chosen
    return found.combination if found else None


def alone(tuned: Table, outputs: Path, combination: tuple[str, ...], seed: int = 1, **settings: Any) -> Any:
    """Return the experiment of a trial."""
    row = replace(tuned.rows[0], chosen={seed: combination})
    changed = [f"trainer.{key}={value}" for key, value in settings.items()]
    return experiment([*tuned.overrides(row, "smoke", seed), *changed, f"outputs_dir={outputs}"])


def test_halving_and_full_agree_and_the_survivor_is_the_undisturbed_run(sweep: Any, tmp_path: Path) -> None:
    """Six trials are halved: two diverge at once, each rung drops one more, and the winner is known."""
    output = sweep(HALVING, tmp_path / "halved", "seeds=1,2")
    assert "6 runs: 0 finished already, 6 to train." in output and "choose settings of tuned a" in output
    sweep(table(), tmp_path / "full")
    assert chosen(HALVING, tmp_path / "halved") == chosen(table(), tmp_path / "full") == BEST

    statuses = sorted(RunDirectory(path.parent).status for path in tmp_path.glob("halved/cells/*/seed1/result.json"))
    assert statuses == ["diverged"] * 2 + ["dropped"] * 2 + ["finished"] * 2
    assert [path.name for path in (tmp_path / "halved" / "tuned" / "smoke" / "a").iterdir()] == ["seed1", "seed2"]
    assert len(list(tmp_path.glob("full/cells/*/seed1/checkpoints/last.safetensors"))) == 4

    whole, record = trained(alone(HALVING, tmp_path / "undisturbed", BEST))
    survivor = RunDirectory(tmp_path / "halved" / "cells" / whole.name / "seed1")
    assert same_weights(survivor.best, whole.best) and same_weights(survivor.last, whole.last)
    assert curve(survivor) == curve(whole)
    halved = read_record(survivor.path / "result.json")
    assert halved is not None and numbers(halved) == numbers(record) and "pause" not in halved["command"]
    assert "pause_after: null" in survivor.config.read_text()
    on_wandb = [read_yaml(path)["logger"] for path in tmp_path.glob("halved/cells/*/seed1/config.yaml")]
    assert {about["group"] for about in on_wandb} == {"tuned"}
    assert len({about["run"] for about in on_wandb}) == 6 and all("a seed 1" in about["run"] for about in on_wandb)
    assert "1 run: 1 finished already, 0 to train." in sweep(HALVING, tmp_path / "halved"), "a choice is made once"


@pytest.mark.parametrize("step", [1, 3, 4, 7])
def test_a_trial_that_is_stopped_in_any_rung_goes_on(sweep: Any, tmp_path: Path, step: int) -> None:
    """The best trial is stopped during a step, its record is lost as by kill -9, and the sweep goes on from there."""
    two = table(**{"optimizer.lr": [0.01, 0.5], "model.dropout": [0.0, 0.1]}, halving=[0.25, 0.5])
    sweep(two, tmp_path / "calm")
    directory, record = trained(alone(two, tmp_path / "stopped", BEST), StopAt(step, signal.SIGTERM))
    assert record["steps"] == step
    (directory.path / "result.json").unlink()
    sweep(two, tmp_path / "stopped")
    assert chosen(two, tmp_path / "stopped") == chosen(two, tmp_path / "calm") == BEST
    calm = RunDirectory(tmp_path / "calm" / "cells" / directory.name / "seed1")
    assert same_weights(calm.last, directory.last) and curve(calm) == curve(directory)


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


def test_each_seed_may_choose(sweep: Any, tmp_path: Path) -> None:
    each = table(**{"model.dropout": [0.0, 0.1]}, seeds="each", trials=4)
    sweep(each, tmp_path, "seeds=1,3")
    decided, decisions = with_choices(each, "smoke", tmp_path)
    assert sorted(decided.rows[0].chosen) == sorted(decisions["a"]) == [1, 3]
    assert [sample.seed for sample in collect(each, "smoke", tmp_path).samples["a"]] == [1, 3]
    assert len(list(tmp_path.glob("cells/*/seed3"))) == 4


def test_published_trials_choose_for_a_sweep_and_stay_as_they_are(
    sweep: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a trial was begun here: the published one came further."""
    published, here = tmp_path / "published", tmp_path / "here"
    sweep(HALVING, published)
    for path in published.glob("cells/*/seed1/result.json"):
        record = json.loads(path.read_text())
        if record["status"] == "dropped":
            write_record(path.parent, {**record, "status": "paused"})
    before = {path: path.read_bytes() for path in published.rglob("result.json")}
    monkeypatch.setattr("highway.config.home.REFERENCE", published)
    begun, _ = trained(alone(HALVING, here, BEST), StopAt(3, signal.SIGTERM))
    output = sweep(HALVING, here, "seeds=2,3")
    assert "2 runs: 0 finished already, 2 to train." in output
    assert output.count(f"tuned a at smoke, seed 1: {' '.join(BEST)} is chosen, with published trials.") == 1
    assert len(list(here.glob("cells/*/*"))) == 3 and begun.status == "interrupted"
    assert {path: path.read_bytes() for path in published.rglob("result.json")} == before

    sweep(table(**{"optimizer.lr": [0.01, 0.5], "model.dropout": [0.0, 0.1]}), tmp_path / "debugged", "debug=few")
    assert len(list(tmp_path.glob("debugged/debug/*/seed1"))) == 4, "they do not choose for runs of a few steps"


def test_a_plan_does_not_count_published_trials(sweep: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short, longer = (table(**{"optimizer.lr": rates, "model.dropout": [0.0, 0.1]}) for rates in ([0.5], [0.5, 0.4]))
    sweep(short, tmp_path / "published")
    monkeypatch.setattr("highway.config.home.REFERENCE", tmp_path / "published")
    missing: list[Planned] = []
    monkeypatch.setattr("highway.preview.plan.foresee", lambda _, planned, *__: missing.extend(planned))
    sweep(longer, tmp_path / "here", "plan=true")
    assert [run.label.removeprefix("tuned a seed 1 ") for run in missing] == [
        "optimizer.lr=0.4 model.dropout=0.0",
        "optimizer.lr=0.4 model.dropout=0.1",
        "tuned a seed 1",  # the row, with the first of its settings until one is chosen
    ]


def test_a_longer_list_brings_dropped_trials_back(sweep: Any, tmp_path: Path) -> None:
    short = table(**{"optimizer.lr": [0.5, 0.4], "model.dropout": [0.0, 0.01]}, trials=2, halving=[0.5])
    sweep(short, tmp_path)
    dropped = [path.parent for path in tmp_path.glob("cells/*/seed1/result.json") if "dropped" in path.read_text()]
    assert len(dropped) == 1
    longer = table(**{"optimizer.lr": [0.5, 0.01], "model.dropout": [0.0, 0.01]}, halving=[0.5])
    assert "to train" in sweep(longer, tmp_path)
    assert RunDirectory(dropped[0]).status == "finished", "of four trials two go on, and it is the second best"


def test_reports_and_publications_say_what_was_tried(sweep: Any, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    page = to_markdown(build_report(collect(HALVING, "smoke", here)))
    assert "| A | not yet: 6 trials to train to 25% of the steps |" in page
    sweep(HALVING, here)
    collected = collect(HALVING, "smoke", here)
    page = to_markdown(build_report(collected))
    assert "## Chosen by validation" in page and "| 0.5 0.0, from our own list |" in page
    assert "1000 0.9 (diverged)" in page and "at 25% (dropped)" in page
    assert [line.text for line in row_status(HALVING, HALVING.rows[0], "smoke", here)] == [
        "finished: seed 1",
        "settings chosen; other trials of seed 1: 2 dropped, 2 diverged, 1 finished",
    ]
    assert len(publish(HALVING, None, here, there).copied) == 6
    assert to_markdown(build_report(collect(HALVING, "smoke", there))) == page
    draw(collected.figures[-1], collected, tmp_path)
    drawn = (tmp_path / "chosen_settings.svg").read_text()
    for text in ("25% of the steps", "the whole run", "chosen", "diverged", "0.5 0.0", "validation bits per character"):
        assert f">{text}<" in drawn, text


def test_the_figure_of_a_number_has_an_axis_of_numbers(tmp_path: Path) -> None:
    """Each rung is a line over the setting, in the order of its values; a diverged trial has no point."""
    tuned = table(**{"optimizer.lr": [0.5, 0.01, 5]}, halving=[0.5])
    combinations = [(f"optimizer.lr={value}",) for value in (0.5, 0.01, 5)]
    values = [(2.0, 1.5), (3.0, 2.5), (math.inf, math.inf)]
    tried = [Trial(c, Path(c[0]), "paused", each) for c, each in zip(combinations, values, strict=True)]
    rule = Choose(tuple(combinations), "valid_bpc", ("own",) * 3, (0.5,))
    row = replace(tuned.rows[0], choose=rule)
    found = decide(tried, (0.5, WHOLE), "lower")
    canvas, axis = plt.subplots()
    draw_panel(axis, row, found)
    lines = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axis.lines}
    assert lines["50% of the steps"] == ([0.01, 0.5], [3.0, 2.0]) and lines["the whole run"] == (
        [0.01, 0.5],
        [2.5, 1.5],
    )
    assert lines["diverged"][0] == [5.0] and lines["chosen"] == ([0.5], [1.5]) and axis.get_xscale() == "log"
    plt.close(canvas)


def test_rows_that_are_not_tuned_alike_are_named() -> None:
    rows = [{"id": name, "label": name.upper(), "overrides": []} for name in "ab"]
    rows[1]["choose"] = {"optimizer.lr": [1, 2], "by": "valid_bpc"}
    tuned = parse_table(content(recipe=RECIPE, rows=rows, choose={"optimizer.lr": [1, 2, 3], "by": "valid_bpc"}))
    page = to_markdown(build_report(collect(tuned, "paper", Path("nothing"))))
    assert "Not tuned alike: most rows have 3 trials; B 2 trials." in page


def test_a_trial_that_halving_left_behind_and_that_ended_better_is_named() -> None:
    rows = [{"id": "a", "label": "A", "overrides": []}]
    choose = {"optimizer.lr": [1, 2], "by": "valid_bpc", "halving": [0.5]}
    table = parse_table(content(recipe=RECIPE, rows=rows, choose=choose))
    for ended, named in ((1.2, True), (1.6, False)):
        tried = [
            Trial((f"optimizer.lr={lr}",), Path(str(lr)), "finished", values)
            for lr, values in ((1, (1.8, 1.5)), (2, (1.9, ended)))
        ]
        text = str(described(table, {"a": {1: decide(tried, (0.5, WHOLE), "lower")}}, table.rows))
        assert ("A: halving left 2 behind." in text) is named
        assert ("is better there (1.200) than 1 (1.500), which was chosen" in text) is named
    lost = [replace(trial, status="diverged", values=(math.inf, math.inf)) for trial in tried]
    assert "left" not in str(described(table, {"a": {1: decide(lost, (0.5, WHOLE), "lower")}}, table.rows))


def test_a_grid_chooses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    overrides = (*RECIPE, *STEPS, "budget=smoke", "gate=none,sdu_tanh", "optimizer.lr=0.01,0.5")
    code, output = inline(monkeypatch, tmp_path, "name=rates", "choose=optimizer.lr", "seed=1,2", *overrides)
    assert code == 0, output
    assert len(list(tmp_path.glob("cells/*/*/result.json"))) == 6, "two gates; two trials of seed 1, and one of seed 2"
    page = (tmp_path / "report" / "rates" / "smoke" / "table.md").read_text()
    assert "| gate=none | 0.5 (at the edge of the list), from our own list |" in page
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


def test_fail_fast_goes_on_after_a_rung(sweep: Any, tmp_path: Path) -> None:
    """A trial that a sweep has paused to compare it has not failed."""
    two = table(**{"optimizer.lr": [0.01, 0.5], "model.dropout": [0.0, 0.1]}, halving=[0.25, 0.5])
    sweep(two, tmp_path, "fail_fast=true")
    assert chosen(two, tmp_path) == BEST


def test_a_budget_without_rows_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = [{"id": "a", "label": "A", "overrides": ["gate=none"], "budgets": ["paper"]}]
    tuned = parse_table(content(id="tuned", recipe=RECIPE, rows=rows, budgets={"paper": [], "smoke": STEPS}))
    monkeypatch.setattr("highway.sweep.planner.load_table", lambda _: tuned)
    code, _ = inline(monkeypatch, tmp_path, "table=highway_t1", "budget=smoke")
    assert code == 2


# The rule by itself


def trials(*values: tuple[float | None, ...]) -> list[Trial]:
    return [Trial((f"model.width={number}",), Path(str(number)), "paused", each) for number, each in enumerate(values)]


def test_the_better_half_goes_on_rounded_up() -> None:
    found = decide(trials(*((float(5 - number), None) for number in range(5))), (0.5, WHOLE), "lower")
    assert [trial.values[0] for trial in found.left] == [3.0, 2.0, 1.0] and found.until == WHOLE
    assert len(found.missing) == 3 and found.chosen is None
    found = decide(trials(*((float(5 - number), None) for number in range(5))), (0.5, WHOLE), "higher")
    assert [trial.values[0] for trial in found.left] == [5.0, 4.0, 3.0]


@pytest.mark.parametrize(
    ("values", "better", "winner"),
    [
        ([2.0, 1.0, 1.0], "lower", 1),  # equal values rank in the order of the table
        ([2.0, 1.0, 2.0], "higher", 0),
        ([math.inf, 3.0, math.inf], "lower", 1),
        ([math.inf, 3.0, math.inf], "higher", 1),
        ([math.inf, math.inf], "lower", 0),
        ([math.nan, 3.0], "lower", 1),
    ],
)
def test_the_winner(values: list[float], better: str, winner: int) -> None:
    among = trials(*((value,) for value in values))
    assert decide(among, (WHOLE,), better).chosen == among[winner]


def test_a_trial_that_diverges_later_loses_there() -> None:
    among = trials((1.0, math.inf, math.inf), (2.0, 2.0, 2.0), (3.0, None, None))
    assert decide(among, (0.2, 0.5, WHOLE), "lower").chosen == among[1]


def test_nothing_is_decided_before_every_value_is_known() -> None:
    found = decide(trials((1.0, 1.0), (None, None)), (0.5, WHOLE), "lower")
    assert (found.chosen, found.until, len(found.missing)) == (None, 0.5, 1)


def test_the_forecast_counts_each_trial_as_far_as_it_will_go() -> None:
    found = decide(trials(*((None,) * 3 for _ in range(5))), (0.1, 0.3, WHOLE), "lower")
    assert [share for _, share in forecast(found)] == [WHOLE, WHOLE, 0.3, 0.1, 0.1]


def test_a_sweep_waits_for_another_one_that_is_a_stage_ahead(
    sweep: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other sweep takes a trial of the first rung just after it has paused, and gives it back a second later."""
    launch, leases = InlineLauncher.launch_runs, ExitStack()

    def launch_beside_another(self: InlineLauncher, to_run: Sequence[Planned], planned: int, fail_fast: bool) -> None:
        launch(self, to_run, planned, fail_fast)
        if paused := [run.directory for run in to_run if run.directory.status == "paused"]:
            leases.enter_context(paused[0].leased())
            threading.Timer(1, leases.close).start()

    monkeypatch.setattr(InlineLauncher, "launch_runs", launch_beside_another)
    sweep(HALVING, tmp_path)
    assert chosen(HALVING, tmp_path) == BEST


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


def ended(outputs: Path, status: str) -> int:
    return list(outcomes(outputs).values()).count(status)


@pytest.mark.slow
@pytest.mark.usefixtures("tuned")
def test_sweeps_that_are_killed_in_each_rung_and_share_the_trials(tmp_path: Path) -> None:
    """A sweep is killed before the first rung, after it and after the second; two sweeps at once end what is left."""
    calm, hurt = tmp_path / "calm", tmp_path / "hurt"
    told(started(calm))
    assert sorted(outcomes(calm).values()) == ["diverged", "dropped", "dropped", "finished"]
    moments: list[Callable[[], bool]] = [
        lambda: any(hurt.glob("cells/*/*/checkpoints/*")),
        lambda: ended(hurt, "paused") > 0,
        lambda: ended(hurt, "dropped") > 0,
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


# What a table file may not say


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"by": "test_bpc"}, "not a metric of the validation split"),
        ({"by": "valid_bpx"}, "metric valid_bpx is unknown"),
        ({"by": "valid_accuracy"}, "do not measure valid_accuracy. They measure valid_loss, valid_bpc"),
        ({"halving": [0.5, 0.2]}, "does not rise"),
        ({"halving": [1.0]}, "does not rise"),
        ({"optimizer.lr": [1], "model.dropout": [0]}, "leaves nothing to choose"),
        ({"optimizer.lr": [1, 1]}, "is given twice"),
        ({"optimizer.lr": 1}, "is not a list"),
        ({"optimizer.lr": {}}, "has no values"),
        ({"optimizer.lr": [1, 10**400]}, "is not a value of a setting"),
        ({"optimizer.lr": {"author": [1, 2]}}, "the source 'author' is unknown"),
        ({"optimizer.lr": list(range(99))}, "more than 64 combinations"),
        ({"budgets": ["mini"]}, "there is no budget mini"),
        ({"seeds": "all"}, "seeds"),
        ({"gate.kernel": [3, 5], "trainer.max_steps": [1, 2]}, "trainer.max_steps is chosen, but row a or a budget"),
        ({"combinations": [["optimizer.lr=1"]]}, "or `combinations`"),
    ],
)
def test_what_a_choice_may_have_wrong(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        table(**changes)


def test_combinations_may_be_listed() -> None:
    rule = {
        "by": "valid_bpc",
        "combinations": {
            "paper": [["optimizer.lr=1", "model.dropout=0"]],
            "own": [["optimizer.lr=2", "model.dropout=0"]],
        },
    }
    tuned = parse_table(content(recipe=RECIPE, choose=rule))
    assert tuned.rows[0].choose == Choose(
        (("optimizer.lr=1", "model.dropout=0"), ("optimizer.lr=2", "model.dropout=0")), "valid_bpc", ("paper", "own")
    )


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
