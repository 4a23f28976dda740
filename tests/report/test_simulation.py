"""Simulated tables: what they are made of, and how often verdicts on them are wrong."""

import dataclasses

import numpy as np
import pytest

from highway.report.claims import contrasts_of
from highway.report.simulation import (
    FAR,
    HELD,
    errors,
    errors_before,
    fulfil,
    key,
    noise,
    number_rates,
    power,
    simulate,
)
from highway.sweep.reading import load_table, table_ids

XL, HSG = load_table("highway_t5"), load_table("hsg_t1")


@pytest.mark.slow
@pytest.mark.parametrize("case", HELD)
@pytest.mark.parametrize("table_id", table_ids())
def test_at_most_one_table_in_twenty_has_a_false_verdict(table_id: str, case: str) -> None:
    for seeds in (3, 5, 10):
        found = errors(load_table(table_id), case, seeds, 4000)
        assert not found.exceeds, (seeds, found)


def test_few_simulated_tables_have_a_false_verdict() -> None:
    for case in HELD:
        assert errors(HSG, case, 3, 400).share < 0.09, case
    assert errors_before(HSG, "a", 3, 400).share > 0.15, "the rule of commit a4d60ae"


@pytest.mark.parametrize("correlation", [-0.3, 0.5, 0.9])
def test_seeds_are_correlated(correlation: float) -> None:
    values = noise(f"d {correlation}", (20_000, 3, 2), np.random.default_rng(0))
    assert np.corrcoef(values[:, 0, 0], values[:, 1, 0])[0, 1] == pytest.approx(correlation, abs=0.02)
    assert values.std() == pytest.approx(1, abs=0.01)
    assert np.corrcoef(values[:, 0, 0], values[:, 1, 1])[0, 1] == pytest.approx(0, abs=0.03)


def test_spreads_and_failures() -> None:
    wide = noise("e x3", (5000, 4, 3), np.random.default_rng(0))
    assert wide.var() == pytest.approx((3 + 9) / 4, rel=0.05)
    assert np.isneginf(noise("f", (5000, 4, 3), np.random.default_rng(0))).mean() == pytest.approx(0.1, abs=0.01)


def test_a_claim_at_its_edge_has_one_equal_pair() -> None:
    simulated, true = simulate(HSG, "b", 3, 200, np.random.default_rng(0))
    contrasts = contrasts_of(HSG.claims[0], simulated.rows)
    assert not np.any(simulated.effects[key(HSG.claims[0])] @ contrasts.T % FAR), "equal or far apart"
    assert (true == 0).any(1).all()


def test_the_edge_of_a_paired_claim_has_one_equal_pair() -> None:
    claim = next(claim for claim in HSG.claims if claim.paired)
    rows = tuple(row.id for row in HSG.rows if not row.extra)
    assert contrasts_of(claim, rows).shape[0] == len(claim.rows) == 3, "each with the one at its place"
    source, true = simulate(dataclasses.replace(HSG, claims=(claim,)), "b", 3, 50, np.random.default_rng(0))
    gaps = np.sort(source.effects[key(claim)] @ contrasts_of(claim, rows).T)
    assert gaps == pytest.approx(np.tile([0, FAR, FAR], (50, 1)), abs=1e-9) and not true.any()


def test_half_of_the_claims_are_true_by_five_deviations() -> None:
    _, true = simulate(XL, "c", 3, 200, np.random.default_rng(0))
    assert 0.3 < (true == 1).mean() < 0.8


def test_claims_that_contradict_cannot_be_fulfilled() -> None:
    claim = HSG.claims[0]
    rows = [row.id for row in HSG.rows if not row.extra]
    effects = fulfil([claim], rows, np.zeros(len(rows)))
    assert effects is not None and (contrasts_of(claim, rows) @ effects).min() == pytest.approx(5)
    opposite = type(claim)(claim.text, claim.kind, claim.than, claim.rows, claim.metric)
    assert fulfil([claim, opposite], rows, np.zeros(len(rows))) is None


def test_large_effects_are_found_and_words_are_shares() -> None:
    found = power(load_table("highway_t7"), 8, 5, 50)
    assert found is not None and found.today > 0.95
    rates = number_rates(6.0, 1.8, 5, 200)
    assert rates["different"] > 0.95 and sum(rates.values()) == pytest.approx(1)
    assert number_rates(0.0, 3.0, 5, 200)["equivalent"] > 0.9
