"""How often verdicts are wrong on simulated tables, and what these tables are made of."""

import numpy as np
import pytest

from highway.report.claims import contrasts_of
from highway.report.simulation import FAR, errors, errors_before, key, noise, number_rates, power, simulate
from highway.sweep.reading import load_table, table_ids

HSG = load_table("hsg_t1")


@pytest.mark.parametrize("table_id", table_ids())
def test_at_most_one_table_of_equal_rows_in_twenty_has_a_false_verdict(table_id: str) -> None:
    found = errors(load_table(table_id), "a", 3, 2000)
    assert found.any and not found.exceeds, found


def test_the_simulation_finds_the_errors_of_a_worse_rule() -> None:
    assert errors_before(HSG, "a", 3, 400).share > 0.15, "the rule of commit a4d60ae"


def test_what_the_tables_are_made_of() -> None:
    """Seeds move all rows alike, one row may be wide, runs may fail, and a claim at its edge has one equal pair."""
    rng = np.random.default_rng(0)
    values = noise("d 0.5", (20_000, 3, 2), rng)
    assert np.corrcoef(values[:, 0, 0], values[:, 1, 0])[0, 1] == pytest.approx(0.5, abs=0.02)
    assert np.corrcoef(values[:, 0, 0], values[:, 1, 1])[0, 1] == pytest.approx(0, abs=0.03)
    assert noise("e x3", (5000, 4, 3), rng).var() == pytest.approx((3 + 9) / 4, rel=0.05)
    assert np.isneginf(noise("f", (5000, 4, 3), rng)).mean() == pytest.approx(0.1, abs=0.01)
    simulated, true = simulate(HSG, "b", 3, 200, rng)
    contrasts = contrasts_of(HSG.claims[0], simulated.rows)
    assert not np.any(simulated.effects[key(HSG.claims[0])] @ contrasts.T % FAR), "equal or far apart"
    assert (true == 0).any(1).all()


def test_large_effects_are_found() -> None:
    found = power(load_table("highway_t7"), 8, 5, 50)
    assert found is not None and found.today > 0.95
    rates = number_rates(6.0, 1.8, 5, 200)
    assert rates["different"] > 0.95 and sum(rates.values()) == pytest.approx(1)
    assert number_rates(0.0, 3.0, 5, 200)["equivalent"] > 0.9
