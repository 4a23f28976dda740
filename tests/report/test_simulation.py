"""How often verdicts are wrong on simulated tables, and that the simulation would notice a worse rule."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from highway.report import statistics
from highway.report.statistics import Array
from highway.tables.reading import load_table, table_ids

TABLES = 2000


def script() -> ModuleType:
    found = importlib.util.spec_from_file_location("simulate", Path(__file__).parents[2] / "scripts" / "simulate.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


simulate = script()


@pytest.mark.parametrize("table_id", table_ids())
def test_few_tables_of_equal_rows_have_a_false_verdict_after_both_looks(table_id: str) -> None:
    for case in ("equal", "ragged", "mixed"):
        false = simulate.false_verdicts(load_table(table_id), case, 5, TABLES)
        assert false and not simulate.is_too_often(false, TABLES, case), f"{case}: {false} of {TABLES}"


@pytest.mark.parametrize("case", [*simulate.CASES])
def test_nor_have_tables_drawn_at_random(case: str) -> None:
    tables = [simulate.drawn(number) for number in range(simulate.DRAWN)]
    claims = [claim for table in tables for claim in table.claims]
    assert {claim.kind for claim in claims} == {"better", "at_most", "growing"} and any(
        claim.paired for claim in claims
    )
    false = sum(simulate.false_verdicts(table, case, 5, TABLES // len(tables)) for table in tables)
    assert not simulate.is_too_often(false, TABLES, case), f"{false} of {TABLES}"


def test_the_simulation_notices_claims_that_are_not_corrected_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def uncorrected(p_values: Array) -> Array:
        return p_values

    monkeypatch.setattr(statistics, "holm", uncorrected)
    false = simulate.false_verdicts(load_table("gated_resnet_t1"), "equal", 5, TABLES)
    assert simulate.is_too_often(false, TABLES, "equal"), f"{false} of {TABLES}"


@pytest.mark.parametrize(("looks", "low", "high"), [((3, 5), 0.055, 0.08), ((3, 4, 5, 6, 7, 8), 0.11, 0.16)])
def test_looks_without_a_price_have_too_many_false_verdicts(
    monkeypatch: pytest.MonkeyPatch, looks: tuple[int, ...], low: float, high: float
) -> None:
    """One pair of equal rows, with eight runs each, tested at 5 % at each look."""
    monkeypatch.setattr(statistics, "LOOKS", looks)
    monkeypatch.setattr(statistics, "LEVEL", 0.05 * len(looks))  # undoes the factor
    table = load_table("highway_t1")
    table = table.model_copy(update={"claims": table.claims[:1]})
    assert low < simulate.false_verdicts(table, "equal", 8, 10 * TABLES) / (10 * TABLES) < high


def test_what_the_tables_are_made_of() -> None:
    table = load_table("hsg_t1")
    bases = {table.base(row.id) for row in table.rows}
    deviations = {case: deviation(simulate.SimulatedNumbers(table, case, 5, 4000)) for case in simulate.CASES}
    assert np.unique(deviations["equal"].round(1)).tolist() == [1.0]
    assert deviations["wide row"] == pytest.approx(np.full(8, np.sqrt((7 + 9) / 8)), rel=0.05)
    expected = [3.0 if row.id in bases else 1.0 for row in table.rows if not row.extra]
    assert deviations["wide baseline"] == pytest.approx(np.array(expected), rel=0.05)
    assert deviations["mixed"] == pytest.approx(np.full(8, np.sqrt((1 + 9) / 2)), rel=0.05)
    assert deviations["ten times"] == pytest.approx(np.full(8, np.sqrt((1 + 100) / 2)), rel=0.05)
    runs = {case: simulate.SimulatedNumbers(table, case, 5, 4000).runs["test_ppl", None] for case in simulate.CASES}
    assert np.isneginf(runs["failures"]).mean() == pytest.approx(0.1, abs=0.01)
    assert (~np.isnan(runs["ragged"][0])).sum(-1).tolist() == [3, 5, 7, 3, 5, 7, 3, 5]
    for case, share in (("equal", 0.0), ("correlated 0.1", 0.1), ("correlated 0.75", 0.75)):
        assert np.corrcoef(runs[case][:, 0, 0], runs[case][:, 1, 0])[0, 1] == pytest.approx(share, abs=0.04)
        assert np.corrcoef(runs[case][:, 0, 0], runs[case][:, 1, 1])[0, 1] == pytest.approx(0, abs=0.04)
    same = simulate.SimulatedNumbers(table, "same runs", 5, 10)
    first, last = (same.values(table.rows[number].id, "test_ppl", False) for number in (0, 7))
    assert (first == last).all() and same.twin(table.rows[7].id) == table.rows[0].id


def deviation(numbers: object) -> Array:
    runs = np.where(np.isfinite(of_metric := numbers.runs["test_ppl", None]), of_metric, np.nan)  # type: ignore[attr-defined]
    return np.asarray(np.nanstd(runs, axis=(0, 2)))


@pytest.mark.parametrize("table_id", ["highway_t7", "hsg_t1"])
def test_large_effects_are_found_and_each_pair_has_them(table_id: str) -> None:
    table = load_table(table_id)
    assert simulate.power(table, 6, 5, 200) > 0.95 > simulate.power(table, 2, 3, 200)
    for claim in simulate.testable(table):
        numbers = simulate.SimulatedNumbers(table, "equal", 3, 3000)
        numbers.make_true(claim, 4.0)
        runs = [[numbers.values(name, claim.metric, False, claim.over).mean() for name in pair] for pair in claim.pairs]
        gaps = np.subtract(*np.transpose(runs))
        assert (np.diff(gaps) if claim.kind == "growing" else gaps) == pytest.approx(4.0, abs=0.1)
