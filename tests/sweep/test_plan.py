"""The plan of a sweep: what was typed, the runs that follow from it, and what a stage says and writes."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from highway.config.compose import experiment
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.ledger.files import write_text
from highway.sweep import plan as plans
from highway.sweep.plan import Plan, Planner
from highway.tables.reading import load_table, parse_table
from highway.tables.typed import Typed, read_typed
from tests.support.overrides import TINY
from tests.support.tables import content, write_ended
from tests.support.tuned import RECIPE


def typed(*overrides: str) -> Typed:
    return read_typed(OverridesParser.create().parse_overrides(list(overrides)))


def planned(outputs: Path, *overrides: str, search_path: Sequence[str] = ()) -> Plan:
    return Planner(typed(f"outputs_dir={outputs}", *overrides), search_path).plan()


def test_the_runs_of_a_table_are_those_of_its_file(tmp_path: Path) -> None:
    table = load_table("highway_t1")
    plan = planned(tmp_path, "table=highway_t1", "seeds=1,2", "budget=mini", "rows=baseline,tanh")
    expected = [
        RunDirectory.of(experiment([*table.overrides(table.row(row), "mini", seed), f"outputs_dir={tmp_path}"]))
        for row in ("baseline", "tanh")
        for seed in (1, 2)
    ]
    assert [run.directory for run in plan.runs] == [run.directory for run in plan.to_train] == expected
    assert [run.label for run in plan.runs][:2] == ["highway_t1 baseline seed 1", "highway_t1 baseline seed 2"]
    assert [run.experiment.seed for run in plan.runs if run.experiment] == [1, 2, 1, 2]
    assert plan.summary.startswith("4 runs: 0 finished already, 4 to train.")


def test_labels_name_the_budget_where_there_are_several(tmp_path: Path) -> None:
    plan = planned(tmp_path, *TINY[1:], "gate=none", "budget=mini,smoke", "name=mine")
    assert [run.label for run in plan.runs] == ["mine run budget=mini seed 1", "mine run budget=smoke seed 1"]


def test_null_is_not_given(tmp_path: Path) -> None:
    plan = planned(tmp_path, "table=highway_t1", "rows=null", "rerun=null", "seeds=null", "budget=mini")
    assert len(plan.to_train) == 3


def test_what_has_ended_is_not_missing(tmp_path: Path) -> None:
    words = (*TINY, "gate=none,sdu_tanh,sdu_sigmoid", "seed=1")
    finished, failed, _ = (run.directory for run in planned(tmp_path, *words).runs)
    write_ended(finished.path, "finished")
    write_ended(failed.path, "failed", error="x")
    plan = planned(tmp_path, *words)
    assert len(plan.to_train) == 1 and "3 runs: 1 finished already, 1 failed already, 1 to train." in plan.summary
    assert len(planned(tmp_path, *words, "retry_failed=true").to_train) == 2
    again = planned(tmp_path, *words, "rerun=true")
    assert [run.directory for run in again.again] == [finished] and len(again.to_train) == 2
    again.write()
    assert (finished.path / "earlier" / "1" / "result.json").exists() and finished.status == "waiting"


def test_changed_recipes_take_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nine rows whose table file was edited are one sentence, which names what changed in the first."""
    words = ("table=highway_t1", "budget=smoke", "seeds=1,2,3")
    planned(tmp_path, *words, "model.width=16", "model.heads=2").write()
    with caplog.at_level(logging.INFO, "highway"):
        plan = planned(tmp_path, *words)
        plan.write()
    assert caplog.messages == [], "the rows have other links"
    for link, run in plan._links.items():
        earlier = RunDirectory(tmp_path / "cells" / "transformer-0123456789ab" / link.name)
        earlier.path.mkdir(parents=True, exist_ok=True)
        write_text(earlier.config, "model:\n  width: 8\n")  # older than the other sections
        os.remove(link)
        link.symlink_to(os.path.relpath(earlier.path, link.parent))
        assert run.experiment is not None
    with caplog.at_level(logging.INFO, "highway"):
        plan.write()
    (line,) = caplog.messages
    assert line.startswith("3 rows have another configuration than before; baseline: model.width 8 -> ")
    assert len(line.removeprefix(str(tmp_path))) < 300


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (("seeds=1,2", "gate=none"), "seeds= needs table=. For a grid, write seed=1,2."),
        (("rows=a", "gate=none"), "rows= needs table=."),
        (("table=highway_t1", "seed=1"), "seed= is for a single run or a grid"),
        (("table=highway_t1", "choose=optimizer.lr"), "choose= is for a grid"),
        (("table=highway_t1", "title=x"), "title= and columns= describe a grid"),
        (("table=highway_t1", "name=x"), "name= names a grid, but table= is given"),
        (("gate=none", "name=x,y"), "gives several names"),
        (("table=highway_t1", "seeds=1", "seeds=2"), "seeds= is given twice"),
        (("gate=none", "plan=maybe"), "plan=maybe is unknown; it takes true, false"),
        (("gate=none", "plan=true,false"), "plan=true,false is unknown; it takes true, false"),
        (("gate=none", "debug=none,few"), "debug= takes one option in a sweep"),
        (("table=highway_t1", "seeds=-1"), "seeds=-1 must be a whole number"),
        (("seed=99999999999999999999", "gate=none"), "must be a whole number from 0 to 9223372036854775807"),
        (("table=highway_t7",), "is measured, not trained"),
        (("table=highway_t1", "gate.kernel=5"), "gate.kernel=5 changes nothing: no run of this sweep reads it"),
    ],
)
def test_what_does_not_fit_together_is_refused(tmp_path: Path, overrides: Sequence[str], sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        planned(tmp_path, *overrides)
    assert sentence in str(refused.value)


def test_a_row_chooses_nothing_if_one_of_its_keys_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = {"optimizer.lr": [1, 2], "model.dropout": [0.1, 0.2], "by": "valid_bpc"}
    tuned = parse_table(content(id="tuned", recipe=RECIPE, choose=rule, budgets={"smoke": []}))
    monkeypatch.setattr(plans, "load_table", lambda _: tuned)
    assert len(planned(tmp_path, "table=tuned", "budget=smoke").runs) == 4 * len(tuned.rows), "trials"
    plan = planned(tmp_path, "table=tuned", "budget=smoke", "optimizer.lr=3")
    assert len(plan.runs) == len(tuned.rows) and not plan.choosing
    assert not any("model.dropout" in " ".join(run.overrides) for run in plan.runs)
