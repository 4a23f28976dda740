"""How often verdicts are wrong on simulated tables, and that the simulation would notice a worse rule."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from highway.report import statistics
from highway.report.statistics import Array
from highway.sweep.reading import load_table, table_ids

TABLES = 2000


def script() -> ModuleType:
    found = importlib.util.spec_from_file_location("simulate", Path(__file__).parents[2] / "scripts" / "simulate.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


simulate = script()


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("table_id", table_ids())
def test_at_most_one_table_of_equal_rows_in_twenty_has_a_false_verdict(table_id: str, seeds: int) -> None:
    false = simulate.false_verdicts(load_table(table_id), "equal", seeds, TABLES)
    assert false and not simulate.is_too_often(false, TABLES), f"{false} of {TABLES}"


@pytest.mark.parametrize("case", ["wide row", "wide baseline", "heavy tails", "failures"])
@pytest.mark.parametrize(("table_id", "seeds"), [("highway_t1", 5), ("hsg_t1", 3), ("hsg_t1", 6)])
def test_nor_has_it_if_rows_differ_in_spread_or_runs_are_not_normal_or_fail(
    table_id: str, seeds: int, case: str
) -> None:
    """In hsg_t1, which has seven claims or more, ranks decide from six seeds on."""
    false = simulate.false_verdicts(load_table(table_id), case, seeds, TABLES)
    assert not simulate.is_too_often(false, TABLES), f"{false} of {TABLES}"


def test_the_simulation_notices_claims_that_are_not_corrected_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def uncorrected(p_values: Array) -> Array:
        return p_values

    monkeypatch.setattr(statistics, "holm", uncorrected)
    false = simulate.false_verdicts(load_table("hsg_t1"), "equal", 3, TABLES)
    assert simulate.is_too_often(false, TABLES)


def test_the_simulation_notices_steps_to_the_end_of_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count steps to the end of the same seed's run: of two equal runs one then arrives, and the other never does."""

    def steps(self: object, row: str, than: str, metric: str) -> tuple[Array, Array]:
        ours, theirs = (self.values(name, metric, False) for name in (row, than))  # type: ignore[attr-defined]
        return np.where(ours >= theirs, 1.0, -np.inf), np.zeros_like(theirs)

    monkeypatch.setattr(simulate.SimulatedNumbers, "steps", steps)
    false = simulate.false_verdicts(load_table("highway_t1"), "equal", 5, TABLES)
    assert simulate.is_too_often(false, TABLES)


def test_what_the_tables_are_made_of() -> None:
    table = load_table("hsg_t1")
    bases = {table.base(row.id) for row in table.rows}
    deviations = {case: deviation(simulate.SimulatedNumbers(table, case, 5, 4000)) for case in simulate.CASES}
    assert np.unique(deviations["equal"].round(1)).tolist() == [1.0]
    assert deviations["wide row"] == pytest.approx(np.full(8, np.sqrt((7 + 9) / 8)), rel=0.05)
    expected = [3.0 if row.id in bases else 1.0 for row in table.rows if not row.extra]
    assert deviations["wide baseline"] == pytest.approx(np.array(expected), rel=0.05)
    failed = simulate.SimulatedNumbers(table, "failures", 5, 4000).runs["test_ppl"]
    assert np.isneginf(failed).mean() == pytest.approx(0.1, abs=0.01)


def deviation(numbers: object) -> Array:
    runs = np.where(np.isfinite(of_metric := numbers.runs["test_ppl"]), of_metric, np.nan)  # type: ignore[attr-defined]
    return np.asarray(np.nanstd(runs, axis=(0, 2)))


@pytest.mark.parametrize("table_id", ["highway_t7", "hsg_t1"])
def test_large_effects_are_found_and_each_pair_has_them(table_id: str) -> None:
    table = load_table(table_id)
    assert simulate.power(table, 8, 5, 200) > 0.95 > simulate.power(table, 2, 3, 200)
    for claim in simulate.testable(table):
        numbers = simulate.SimulatedNumbers(table, "equal", 3, 3000)
        numbers.make_true(claim, 4.0)
        runs = [[numbers.values(name, claim.metric, False).mean() for name in pair] for pair in claim.pairs]
        gaps = np.subtract(*np.transpose(runs))
        assert (np.diff(gaps) if claim.kind == "growing" else gaps) == pytest.approx(4.0, abs=0.1)
