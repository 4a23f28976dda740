"""The time spent besides training stays small, and the quick way to compose a recipe gives Hydra's result.

Times are of processors, or calls are counted: a machine that does other things as well does not fail these tests.
"""

import pstats
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException

from highway.bench import overhead
from highway.config.check import check
from highway.config.compose import experiment
from highway.config.home import CONF
from highway.report.sections import seeds_text
from highway.sweep.reading import load_table, table_ids

RECIPES = [
    (table_id, budget, row.id)
    for table_id in table_ids()
    for budget in load_table(table_id).budgets
    for row in load_table(table_id).at(budget)
]

USUAL_IMPORTS = 4.0  # processor seconds of importing torch and Lightning where the limits were set


def same_as_hydra(table_id: str, budget: str, row_id: str) -> bool:
    table = load_table(table_id)
    arguments = table.overrides(table.row(row_id), budget, seed=3)
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return check(compose("train", arguments)) == experiment(arguments)


@pytest.mark.parametrize("recipe", RECIPES[::40], ids="-".join)
def test_recipes_are_what_hydra_composes(recipe: tuple[str, str, str]) -> None:
    assert same_as_hydra(*recipe)


@pytest.mark.slow
def test_every_row_and_every_budget_are_what_hydra_composes() -> None:
    rows = {(table_id, row): recipe for recipe in RECIPES for table_id, _, row in [recipe]}
    budgets = {(table_id, budget): recipe for recipe in RECIPES for table_id, budget, _ in [recipe]}
    assert [recipe for recipe in {*rows.values(), *budgets.values()} if not same_as_hydra(*recipe)] == []


def test_one_recipe_leaves_no_trace_in_the_next() -> None:
    overrides = ["gate=sdu_tanh", "budget=smoke"]
    first = experiment([*overrides, "model.width=32", "dataset.train={lanes:4}", "seed=7", "optimizer.lr=3"])
    first.dataset.train.lanes = first.trainer.log_every = 99
    with initialize_config_dir(str(CONF), version_base="1.3"):
        assert experiment(overrides) == check(compose("train", overrides))
        assert experiment(["gate=highway"]) == check(compose("train", ["gate=highway"]))


@pytest.mark.parametrize("word", ["gate=nothing", "model.wide=3", "gate=none,sdu_tanh", "nothing=3", "model..x=3"])
def test_what_hydra_refuses_is_refused(word: str) -> None:
    kinds = []
    for composed in (experiment, lambda overrides: compose("train", overrides)):
        with initialize_config_dir(str(CONF), version_base="1.3"), pytest.raises(HydraException) as refusal:
            composed([word])
        kinds.append(type(refusal.value))
    assert kinds[0] is kinds[1]


def test_composing_a_row_takes_a_fraction_of_hydras_time() -> None:
    def seconds(composed: Callable[[list[str]], object], rows: int) -> float:
        start = time.process_time()
        for seed in range(rows):
            composed(["gate=highway", "optimizer.lr=0.3", f"seed={seed}"])
        return (time.process_time() - start) / rows

    experiment(["gate=highway"])
    with initialize_config_dir(str(CONF), version_base="1.3"):
        hydra = seconds(lambda overrides: check(compose("train", overrides)), rows=10)
    assert seconds(experiment, rows=50) < hydra / 2  # an eighth or less on an idle machine


def test_status_does_not_wait_for_thousands_of_cells(tmp_path: Path) -> None:
    def calls(runs: int) -> int:
        """Count the function calls of `highway table status` with `runs` runs on disk."""
        outputs, profile = tmp_path / f"{runs}", tmp_path / f"{runs}.profile"
        overhead.write_known(outputs, runs)
        overhead.spent(outputs, "-m", "cProfile", "-o", str(profile), *overhead.STATUS)
        return pstats.Stats(str(profile)).total_calls

    few, many = calls(10), calls(510)
    assert few < 16_000_000  # about 8,200,000: the start of Python and 30 recipes
    assert (many - few) / 500 < 2_000  # about 1,200 a run; composing one recipe takes 50,000


@pytest.mark.slow
def test_what_one_waits_for(tmp_path: Path) -> None:
    """Each overhead is below twice its limit, with fewer runs; on a slower machine, by as much more as imports take.

    benchmark.py --overhead checks the limits themselves on an idle machine.
    """
    imports = overhead.spent(tmp_path, "-c", "import torch, pytorch_lightning")["processor_seconds"]
    for row in overhead.overhead(swept=200, known=2_000)["rows"]:
        assert row["processor_seconds"] < 2 * row["limit"] * max(1, imports / USUAL_IMPORTS), (row, imports)


def test_numbers_that_follow_one_another() -> None:
    assert seeds_text([1, 2, 3, 5, 6, 7, 8]) == "seeds 1, 2, 3, 5-8" and seeds_text([4]) == "seed 4"
