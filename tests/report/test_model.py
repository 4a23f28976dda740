"""The model of a table's numbers, against scipy and statsmodels."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.multitest import multipletests

from highway.report import model
from highway.report.design import _design, design
from highway.report.model import (
    Array,
    _own_differences,
    _welch,
    contrast_deviations,
    holm,
    kendall_test,
    rank_test,
    row_spread,
    test_contrasts,
    wide_rows,
)

RNG = np.random.default_rng(28)


@pytest.fixture
def one_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every row's spread for the same, as chance may have it."""
    monkeypatch.setattr(model, "ROW_LEVEL", 0.0)
    monkeypatch.setattr(model, "SPREAD_LEVEL", 0.0)


MISSING = (np.array([0, 2, 3]), np.array([1, 2, 0]))


def table(rows: int = 6, seeds: int = 3, correlated: bool = True) -> Array:
    return RNG.normal(size=(1, rows, seeds)) + 2 * correlated * RNG.normal(size=(1, 1, seeds))


def pair(rows: int, row: int, than: int) -> Array:
    contrast = np.zeros((1, rows))
    contrast[0, row], contrast[0, than] = 1, -1
    return contrast


def fit(values: Array, seeds: bool = True, own: int | None = None) -> Any:
    """Return statsmodels' least squares of runs (R, S) with dummies of rows, of seeds, and of each run of a row."""
    rows, columns = np.nonzero(~np.isnan(values))
    dummies = [rows == number for number in range(values.shape[0]) if number != own]
    dummies += [columns == number for number in range(1, values.shape[1])] if seeds else []
    dummies += [(rows == own) & (columns == number) for number in columns[rows == own]]
    return OLS(values[rows, columns], np.stack(dummies, axis=1).astype(float)).fit()


def regression(values: Array, row: int, than: int, seeds: bool = True) -> tuple[float, float, int]:
    """Return a difference of rows by the same least squares: its size, standard error, freedom."""
    fitted = fit(values, seeds)
    contrast = np.zeros(len(fitted.params))
    contrast[row], contrast[than] = 1, -1
    tested = fitted.t_test(contrast)
    return float(tested.effect[0]), float(tested.sd[0, 0]), int(tested.df_denom)


@pytest.mark.usefixtures("one_spread")
@pytest.mark.parametrize("row", [1, 2])
@pytest.mark.parametrize("missing", [False, True])
def test_rows_that_share_seeds_have_seed_effects(missing: bool, row: int) -> None:
    """Six rows with three seeds have ten degrees of freedom; missing runs are left out of the same regression.

    Row 2 misses a seed then, so that its mean over the others is corrected for what those seeds do.
    """
    values = table()
    if missing:
        values[0][MISSING] = np.nan
    tests = test_contrasts(values, pair(6, row, 4))
    size, error, freedom = regression(values[0], row, 4)
    assert freedom == (7 if missing else 10)
    found = tests.advantage[0, 0], tests.error[0, 0], tests.freedom[0, 0]
    assert found == (pytest.approx(size), pytest.approx(error), freedom)
    assert tests.above[0, 0] == pytest.approx(stats.t.sf(size / error, freedom))
    assert tests.below[0, 0] == pytest.approx(stats.t.cdf(size / error, freedom))


def test_two_rows_give_the_paired_t_test() -> None:
    values = table(rows=2, seeds=5)
    expected = stats.ttest_rel(values[0, 0], values[0, 1], alternative="greater").pvalue
    assert test_contrasts(values, pair(2, 0, 1)).above[0, 0] == pytest.approx(expected)


def test_rows_of_other_seeds_are_compared_by_their_spreads_alone() -> None:
    """Each row has seeds of its own: no seed effects, and with two rows Student's test of two samples."""
    values = np.full((1, 2, 8), np.nan)
    values[0, 0, :4] = RNG.normal(size=4)
    values[0, 1, 4:] = 0.5 - 1.1 * values[0, 0, :4]  # a spread so alike that the rows are pooled
    expected = stats.ttest_ind(values[0, 0, :4], values[0, 1, 4:], alternative="less").pvalue
    assert test_contrasts(values, pair(2, 0, 1)).below[0, 0] == pytest.approx(expected)


def test_one_row_of_several_seeds_gives_all_rows_a_spread() -> None:
    """With effects of seeds nothing would be left to judge by, though a row has a second run."""
    values = table(rows=3)
    values[0, 1:, 1:] = np.nan
    tests = test_contrasts(values, np.concatenate([pair(3, 0, 1), pair(3, 1, 2)]))
    for number, rows in enumerate(((0, 1), (1, 2))):
        size, error, freedom = regression(values[0], *rows, seeds=False)
        found = tests.advantage[0, number], tests.error[0, number], tests.freedom[0, number]
        assert freedom == 2 and found == (pytest.approx(size), pytest.approx(error), freedom)


def test_the_design_decides_on_seed_effects() -> None:
    """Not the shorter interval: opposed seeds widen it, and it is taken all the same."""
    opposed = np.stack([RNG.normal(size=5), np.zeros(5)])
    opposed[1] = -opposed[0] + RNG.normal(size=5) / 100
    tests = test_contrasts(opposed[None], pair(2, 0, 1))
    assert tests.error[0, 0] > regression(opposed, 0, 1, seeds=False)[1]
    assert tests.freedom[0, 0] == 4


def test_a_wide_row_leaves_the_pool() -> None:
    """Its pairs have their own differences by seed; the others have the spread of the rows that remain."""
    values = table(rows=5, seeds=6, correlated=False)
    values[0, 2] *= 40
    tests = test_contrasts(values, np.concatenate([pair(5, 2, 0), pair(5, 1, 0)]))
    expected = stats.ttest_rel(values[0, 2], values[0, 0], alternative="greater").pvalue
    assert tests.above[0, 0] == pytest.approx(expected) and tests.freedom[0, 0] == 5
    size, error, freedom = regression(values[0, [0, 1, 3, 4]], 1, 0)  # the seeded draws have no other wide row
    assert (tests.advantage[0, 1], tests.error[0, 1], tests.freedom[0, 1]) == (
        pytest.approx(size), pytest.approx(error), freedom
    )  # fmt: skip


def test_a_wide_row_without_shared_seeds_is_compared_by_welch() -> None:
    values = np.full((1, 4, 24), np.nan)
    for row in range(4):
        values[0, row, 6 * row : 6 * row + 6] = RNG.normal(size=6) * (30 if row == 3 else 1)
    tests = test_contrasts(values, pair(4, 3, 0))
    expected = stats.ttest_ind(values[0, 3, 18:], values[0, 0, :6], equal_var=False, alternative="greater")
    assert tests.above[0, 0] == pytest.approx(expected.pvalue) and tests.freedom[0, 0] == pytest.approx(expected.df)


def test_welchs_test_of_several_tables_at_once() -> None:
    """Each table has its own degrees of freedom, and no row a spread below the floor."""
    values = RNG.normal(size=(3, 2, 5)) * np.array([1, 9])[:, None]
    runs = np.array([[True] * 4 + [False], [True] * 5])
    advantage, error, freedom = _welch(values, runs, np.array([1.0, -1.0]), 0.0) or pytest.fail()
    expected = stats.ttest_ind(values[:, 0, :4], values[:, 1], axis=1, equal_var=False)
    assert advantage / error == pytest.approx(expected.statistic) and freedom == pytest.approx(expected.df)
    floored = _welch(values, runs, np.array([1.0, -1.0]), 90.0) or pytest.fail()
    assert floored[1] == pytest.approx(90 * np.sqrt(1 / 4 + 1 / 5))


def test_two_runs_of_each_row_are_enough_for_welchs_test() -> None:
    values, runs = RNG.normal(size=(1, 2, 2)), np.ones((2, 2), bool)
    advantage, error, _ = _welch(values, runs, np.array([1.0, -1.0]), 0.0) or pytest.fail()
    assert advantage / error == pytest.approx(stats.ttest_ind(*values[0], equal_var=False).statistic)
    runs[0, 0] = False
    assert _welch(values, runs, np.array([1.0, -1.0]), 0.0) is None


def test_equal_runs_without_a_floor_decide_nothing() -> None:
    tests = test_contrasts(np.ones((1, 3, 2)), pair(3, 0, 1))
    assert tests.above[0, 0] == tests.below[0, 0] == 0.5


def test_tests_of_several_contrasts_are_joined_in_order() -> None:
    values = table()
    parts = [test_contrasts(values, pair(6, *rows)) for rows in ((0, 1), (2, 3))]
    together = test_contrasts(values, np.concatenate([pair(6, 0, 1), pair(6, 2, 3)]))
    joined = model.Tests.joined(parts)
    for name in ("advantage", "error", "freedom", "above", "below"):
        np.testing.assert_allclose(getattr(joined, name), getattr(together, name))


def test_two_seeds_in_common_are_enough_for_a_wide_row() -> None:
    values = RNG.normal(size=(1, 2, 4))
    runs = np.array([[True, True, True, False], [False, True, True, True]])
    found = _own_differences(values, runs, np.array([1.0, -1.0]), 0.0)
    expected = stats.ttest_rel(values[0, 0, 1:3], values[0, 1, 1:3])
    assert found is not None and found[0] / found[1] == pytest.approx(expected.statistic) and found[2] == expected.df
    floored = _own_differences(values, runs, np.array([1.0, -1.0]), 9.0)
    assert floored is not None and floored[1] == pytest.approx(9 * np.sqrt(2) / np.sqrt(2)), "of two rows and two seeds"
    runs[1, 1] = False
    assert _own_differences(values, runs, np.array([1.0, -1.0]), 0.0) is None


@pytest.mark.parametrize(("rows", "seeds"), [(4, 4), (3, 5)])
def test_the_spread_of_a_row_is_compared_with_the_rest_by_an_f_test(
    monkeypatch: pytest.MonkeyPatch, rows: int, seeds: int
) -> None:
    """A level just above and below the p of statsmodels decides, where each run of the row has an effect or none."""
    values = table(rows=rows, seeds=seeds)
    values[0, 1] += np.arange(seeds) * 99
    runs = np.ones((rows, seeds), bool)

    _, p, _ = fit(values[0], own=1).compare_f_test(fit(values[0]))
    for level, wide in ((p * 1.001, True), (p * 0.999, False)):
        monkeypatch.setattr(model, "ROW_LEVEL", level)
        monkeypatch.setattr(model, "SPREAD_LEVEL", 0.0)
        assert bool(wide_rows(values, runs, True)[1][0, 1]) is wide
        monkeypatch.setattr(model, "ROW_LEVEL", 0.0)
        monkeypatch.setattr(model, "SPREAD_LEVEL", level * rows)  # Bonferroni's correction
        assert bool(wide_rows(values, runs, True)[0][0, 1]) is wide


def test_no_spread_of_the_rest_is_below_the_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The F test has the square of the floor in place of the mean square of the other rows."""
    values, floor, runs = np.random.default_rng(1).normal(size=(1, 3, 5)) / 100, 0.3, np.ones((3, 5), bool)
    values[0, 1] += (0, 1, 0, 1, 0)
    rest, whole = fit(values[0], own=1), fit(values[0])
    degrees = whole.df_resid - rest.df_resid
    p = stats.f.sf((whole.ssr - rest.ssr) / degrees / floor**2, degrees, rest.df_resid)
    monkeypatch.setattr(model, "SPREAD_LEVEL", 0.0)
    for level in (p * 1.001, p * 0.999):
        monkeypatch.setattr(model, "ROW_LEVEL", level)
        assert bool(wide_rows(values, runs, True, floor)[1][0, 1]) is bool(level > p)


@pytest.mark.parametrize(("seeds", "wide"), [(4, False), (5, True)])
def test_a_row_is_compared_with_a_rest_of_four_degrees_of_freedom_or_more(seeds: int, wide: bool) -> None:
    """The other two rows have as many degrees of freedom as seeds but one."""
    values = np.random.default_rng(1).normal(size=(1, 3, seeds))
    values[0, 1] *= 1e4
    for found in wide_rows(values, np.ones((3, seeds), bool), True):
        assert found.tolist() == [[False, wide, False]]


def test_rows_with_few_seeds_are_not_judged_by_a_spread_that_is_small_by_chance() -> None:
    """A table of two rows with three seeds, two with two and four with one, which all are the same model.

    While any rest would do, 6.6 % of such tables had a false verdict: their wider rows left, and the rest that all
    others were judged by had one or two degrees of freedom.
    """
    rng = np.random.default_rng(1)
    values = rng.normal(size=(10_000, 8, 3)) + rng.normal(size=(10_000, 1, 3))
    for row, seeds in enumerate((3, 3, 2, 2, 1, 1, 1, 1)):
        values[:, row, seeds:] = np.nan
    tests = test_contrasts(values, np.concatenate([pair(8, row + 1, row) for row in (0, 2, 4, 6)]))
    false = 2 * 4 * np.minimum(tests.above, tests.below).min(1) < model.LEVEL
    assert false.mean() < model.LEVEL


def test_only_rows_that_can_be_tested_count_for_the_correction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without row 1 or row 2, the others share too few seeds: only the spread of row 0 has a rest to compare with."""
    runs = np.array([[1, 1, 0, 0, 0, 0, 0], [1, 0, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1, 1]], bool)
    values = np.where(runs, np.random.default_rng(1).normal(size=(1, 3, 7)), np.nan)
    values[0, 0, 0] += 99
    _, p, _ = fit(values[0], own=0).compare_f_test(fit(values[0]))
    for level in (p * 1.001, p * 0.999):
        monkeypatch.setattr(model, "SPREAD_LEVEL", level)
        assert bool(wide_rows(values, runs, True)[0][0, 0]) is bool(level > p)


def test_pairs_that_only_a_wide_row_connected_are_not_judged_by_the_pool() -> None:
    rng, runs = np.random.default_rng(1), np.zeros((5, 6), bool)
    runs[:2, :3] = runs[2:4, 3:] = runs[4] = True
    values = 0.3 * rng.normal(size=(2000, 5, 6)) + rng.normal(size=(2000, 1, 6))
    values[:, 4] += 3 * rng.normal(size=(2000, 6))
    values[:, ~runs] = np.nan
    across, within = test_contrasts(values, pair(5, 0, 2)), test_contrasts(values, pair(5, 0, 1))
    assert np.mean(np.minimum(across.above, across.below) < 0.025) < 0.06
    assert np.mean(np.minimum(within.above, within.below) < 0.025) == pytest.approx(0.05, abs=0.02)


def test_all_rows_decide_on_seed_effects_also_for_those_that_stay_in_the_pool() -> None:
    """Rows 0 to 2 share seeds that row 3 does not have: no seed effects, not even after the wide row 3 has left."""
    rng, values = np.random.default_rng(1), np.full((1, 4, 12), np.nan)
    values[0, :3, :6] = 5 * rng.normal(size=6) + rng.normal(size=(3, 6)) * np.array([[0.1], [0.1], [1]])
    values[0, 3, 6:] = 500 * rng.normal(size=6)
    pairs = np.concatenate([pair(4, 1, 0), pair(4, 2, 0)])
    tests = test_contrasts(values, pairs)
    deviations, freedom, own = contrast_deviations(values, pairs, 0.0) or pytest.fail()
    for number, row in enumerate((1, 2)):
        size, error, degrees = regression(values[0, :3], row, 0, seeds=False)
        assert tests.advantage[0, number] == pytest.approx(size) and tests.error[0, number] == pytest.approx(error)
        assert deviations[number] == pytest.approx(error * np.sqrt(6)) and not own[number]
        assert tests.freedom[0, number] == freedom[number] == degrees == 15
    assert wide_rows(values, ~np.isnan(values[0]), False)[1].tolist() == [[False, False, False, True]]
    spread, degrees = row_spread(values)
    assert spread[0, :3] == pytest.approx(np.sqrt(fit(values[0, :3], seeds=False).mse_resid))
    assert degrees.tolist() == [[15, 15, 15, 5]]


def test_a_row_is_wide_beside_what_seeds_do_to_all() -> None:
    """Seeds move all rows by more than row 2 varies; its pairs keep the deviation at the seeds that both rows have."""
    rng = np.random.default_rng(1)
    values = 90 * rng.normal(size=(1, 1, 6)) + rng.normal(size=(1, 4, 6)) * np.array([[1], [1], [30], [1]])
    values[0, 0, 0] = values[0, 2, 1] = np.nan
    deviations, degrees, own = contrast_deviations(values, pair(4, 2, 0), 0.0) or pytest.fail()
    common = values[0, 2, 2:] - values[0, 0, 2:]
    assert (deviations[0], degrees[0], own[0]) == (pytest.approx(common.std(ddof=1)), 3, True)
    spread, freedom = row_spread(values)
    assert spread[0, 2] == pytest.approx(np.nanstd(values[0, 2], ddof=1)) and freedom[0, 2] == 4


def test_an_offset_is_added_to_the_pairs_of_a_wide_row() -> None:
    values = np.random.default_rng(1).normal(size=(1, 4, 6))
    values[0, 2] *= 40
    found = test_contrasts(values, pair(4, 2, 0), 20.0).above[0, 0]
    assert found == pytest.approx(stats.ttest_1samp(values[0, 2] - values[0, 0], -20, alternative="greater").pvalue)


def test_rows_that_differ_by_rounding_only_stay_in_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one row after another leaves, and each costs the least squares of the whole table."""
    values = np.add.outer(np.arange(60.0), np.arange(8.0))[None] + RNG.normal(size=(1, 60, 8)) * 1e-13
    values[0, ::2] += RNG.normal(size=(30, 8)) * 1e-10
    fits: list[object] = []
    monkeypatch.setattr(model, "design", lambda *of: (fits.append(of), design(*of))[1])
    runs = np.ones((60, 8), bool)
    assert wide_rows(values, runs, True)[1].any() and not wide_rows(values, runs, True, floor=1e-4)[1].any()
    fits.clear()
    test_contrasts(values, np.eye(60)[1:] - np.eye(60)[0], floor=1e-4)
    assert len(fits) <= 5


def test_rows_of_equal_seeds_are_decomposed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first report of a grid of 667 rows and 8 seeds did it 667 times for each row that left the pool."""
    _design.cache_clear()  # `make mutate` runs the tests twice in a process
    decomposed: list[object] = []
    pinv = np.linalg.pinv
    monkeypatch.setattr(np.linalg, "pinv", lambda block, **how: (decomposed.append(block), pinv(block, **how))[1])
    for rows in (19, 190):
        decomposed.clear()
        runs = np.ones((rows, 7), bool)
        runs[0, :3] = False
        assert len(design(runs).forms) == rows and len(decomposed) == 3


def test_no_spread_is_below_the_floor() -> None:
    """Equal values of two seeds are no proof: the least spread is what the metric resolves."""
    values = np.array([[[1.0, 1.0], [1.5, 1.5]]])
    assert test_contrasts(values, pair(2, 1, 0)).above[0, 0] == pytest.approx(0)
    tests = test_contrasts(values, pair(2, 1, 0), floor=0.25)
    assert tests.error[0, 0] == pytest.approx(0.25 * np.sqrt(2 / 2))
    assert tests.above[0, 0] == pytest.approx(stats.t.sf(2.0, 1))


def test_one_seed_has_no_spread() -> None:
    tests = test_contrasts(table(seeds=1), pair(6, 0, 1))
    assert np.isnan(tests.error[0, 0]) and tests.above[0, 0] == tests.below[0, 0] == 1


def rank_sum(row: Array, than: Array) -> float:
    return float(stats.rankdata(np.concatenate([row, than]))[: len(row)].sum())


@pytest.mark.parametrize("failed", [0, 1, 3])
def test_ranks_are_tested_exactly(failed: int) -> None:
    """Scipy deals the runs to the two rows in every way, and has an exact test if none are equal."""
    row, than = RNG.normal(size=5) + 1, RNG.normal(size=6)
    than[:failed] = -np.inf
    above, below = rank_test(row[None], than[None])
    for p, side in ((above, "greater"), (below, "less")):
        dealt = stats.permutation_test((row, than), rank_sum, alternative=side)
        assert p[0] == pytest.approx(dealt.pvalue)
    if not failed:
        exact = stats.mannwhitneyu(row, than, alternative="greater", method="exact").pvalue
        assert above[0] == pytest.approx(exact)


def test_two_failed_runs_share_a_half_rank() -> None:
    """Sums of ranks are then whole or half numbers, and a set with both failed runs can have the sum of one without."""
    row, than = np.array([1.0, 3, 4, 6, 7]), np.array([-np.inf, -np.inf, 2, 5, 8, 9])
    for p, side in zip(rank_test(row[None], than[None]), ("greater", "less"), strict=True):
        assert p[0] == pytest.approx(stats.permutation_test((row, than), rank_sum, alternative=side).pvalue)


def test_a_failed_row_changes_nothing_between_the_others() -> None:
    """Its own pairs are judged by ranks, on either side; the pair of two sound rows keeps its paired t-test."""
    values = np.random.default_rng(1).normal(size=(1, 3, 5))
    values[0, 0] = -np.inf
    tests = test_contrasts(values, np.concatenate([pair(3, 0, 1), pair(3, 1, 2)]))
    expected = stats.ttest_rel(values[0, 1], values[0, 2], alternative="greater").pvalue
    assert tests.above[0] == pytest.approx([1, expected])
    assert tests.below[0] == pytest.approx([1 / 252, 1 - expected])


@pytest.mark.usefixtures("one_spread")
@pytest.mark.parametrize(("seeds", "decided"), [(4, False), (5, True)])
def test_pairs_with_failed_runs_are_judged_by_ranks_from_five_seeds(seeds: int, decided: bool) -> None:
    values = table(rows=3, seeds=seeds)
    values[0, 0] = -np.inf
    tests = test_contrasts(values, np.concatenate([pair(3, 1, 0), pair(3, 1, 2)]))
    assert tests.above[0, 0] == (pytest.approx(1 / 252) if decided else 1)
    assert tests.error[0, 1] == pytest.approx(regression(values[0, 1:], 0, 1)[1]), "the row leaves the others' pool"


def test_two_rows_of_failed_runs_say_nothing_of_each_other() -> None:
    tests = test_contrasts(np.full((1, 2, 6), -np.inf), pair(2, 0, 1))
    assert tests.above[0, 0] == tests.below[0, 0] == 1


@pytest.mark.parametrize("size", [3, 7, 15])
def test_kendalls_test_is_scipys_exact_one(size: int) -> None:
    for _ in range(5):
        one, other = RNG.normal(size=(2, size))
        above, below = kendall_test(one[None], other[None])
        for p, side in ((above, "greater"), (below, "less")):
            assert p[0] == pytest.approx(stats.kendalltau(one, other, method="exact", alternative=side).pvalue)
    ties = np.arange(size) // 2
    above, _ = kendall_test(ties[None].astype(float), np.arange(size)[None].astype(float))
    assert above[0] == pytest.approx(stats.kendalltau(ties, np.arange(size), alternative="greater").pvalue)
    assert kendall_test(np.arange(size)[None].astype(float), ties[None].astype(float))[0][0] == above[0]
    assert kendall_test(np.ones((1, size)), np.arange(size)[None].astype(float))[0][0] == 1


def test_kendalls_test_of_many_rows_is_exact() -> None:
    """Scipy itself approximates from 34 rows on."""
    one, other = np.random.default_rng(1).normal(size=(2, 40))
    for p, side in zip(kendall_test(one[None], other[None]), ("greater", "less"), strict=True):
        exact = stats.kendalltau(one, other, method="exact", alternative=side).pvalue
        assert p[0] == pytest.approx(exact) != stats.kendalltau(one, other, alternative=side).pvalue


def test_holms_correction() -> None:
    p = RNG.random((3, 7)) ** 3
    for of_table, corrected in zip(p, holm(p), strict=True):
        assert corrected == pytest.approx(multipletests(of_table, method="holm")[1])
    assert holm(np.array([0.01, 0.04, 0.03])) == pytest.approx([0.03, 0.06, 0.06])
    assert holm(np.array([0.6, 0.7])).tolist() == [1, 1]
    assert holm(np.array([0.01, 0.02, 0.02])) == pytest.approx(multipletests([0.01, 0.02, 0.02], method="holm")[1])


@pytest.mark.usefixtures("one_spread")
def test_the_spread_of_one_run_has_seed_effects_in_it() -> None:
    """Satterthwaite's degrees of freedom lie between those of one row and those of all, as far as seeds agree."""
    for shift, freedom in ((0.0, (4.0, 24.0)), (50.0, (3.9, 4.1))):
        values = table(rows=6, seeds=5, correlated=False) + shift * RNG.normal(size=(1, 1, 5))
        spread, degrees = row_spread(values)
        assert spread[0, 0] == pytest.approx(np.sqrt(fit(values[0], seeds=False).mse_resid))
        assert freedom[0] <= degrees[0, 0] <= freedom[1]
    assert (row_spread(values, floor=1e9)[0] == 1e9).all()


@pytest.mark.usefixtures("one_spread")
@pytest.mark.parametrize(("rows", "seeds"), [(6, 5), (2, 2)])
def test_degrees_of_freedom_of_one_run_are_satterthwaites_for_seeds_and_rest(rows: int, seeds: int) -> None:
    """They are Welch's for two samples of which the variances of the means are the two sums of squares."""
    values = table(rows, seeds) / 1000
    both, rest = fit(values[0], seeds=False), fit(values[0])
    squares = both.ssr - rest.ssr, rest.ssr
    sizes = int(both.df_resid - rest.df_resid) + 1, int(rest.df_resid) + 1
    samples = [
        stats.zscore(RNG.normal(size=size), ddof=1) * np.sqrt(square * size)
        for size, square in zip(sizes, squares, strict=True)
    ]
    expected = stats.ttest_ind(*samples, equal_var=False).df
    spread, degrees = row_spread(values)
    assert degrees == pytest.approx(np.full((1, rows), expected))
    assert spread == pytest.approx(np.full((1, rows), np.sqrt(both.mse_resid)))


def test_a_wide_row_has_a_spread_of_its_own() -> None:
    values = table(rows=6, seeds=5)
    values[0, 2] *= 1e4
    spread, degrees = row_spread(values)
    assert spread[0, 2] == pytest.approx(values[0, 2].std(ddof=1)) and degrees[0, 2] == 4
    others = fit(np.delete(values[0], 2, axis=0), seeds=False)
    assert spread[0, 0] == pytest.approx(np.sqrt(others.mse_resid)), "the row leaves the others' pool"


def test_only_a_row_that_leaves_the_pool_has_a_spread_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one whose pairs alone are judged by the rows' own spreads, nor one that is wide below the resolution."""
    values = np.random.default_rng(1).normal(size=(1, 4, 5))
    values[0, 2] *= 1e3
    spread, degrees = row_spread(values / 1e6, floor=1.0)
    assert (spread == 1).all() and np.ptp(degrees) == 0
    _, _, own = contrast_deviations(values / 1e6, pair(4, 2, 0), 1.0) or pytest.fail()
    assert not own.any()
    monkeypatch.setattr(model, "ROW_LEVEL", 1.0)
    monkeypatch.setattr(model, "SPREAD_LEVEL", 0.0)
    assert np.ptp(row_spread(values)[0]) == 0


def test_equal_runs_have_the_degrees_of_freedom_of_all_rows() -> None:
    spread, degrees = row_spread(np.ones((1, 3, 4)), floor=0.1)
    assert (spread == 0.1).all() and (degrees == 3 * (4 - 1)).all()


def test_the_spreads_of_many_tables_are_those_of_each_alone() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(20, 5, 4))
    values[::3, 2] *= 90
    values[10:, 1, 0] = np.nan
    together = row_spread(values)
    for number, of_table in enumerate(values):
        for found, alone in zip(together, row_spread(of_table[None]), strict=True):
            np.testing.assert_allclose(found[number], alone[0])


def test_many_tables_are_tested_as_each_alone() -> None:
    """The simulation tests thousands at once; reports test one. Both give the same numbers, also of equal patterns."""
    values = RNG.normal(size=(60, 5, 4))
    values[::3, 2] *= 9
    values[:40][RNG.random((40, 5, 4)) < 0.1] = np.nan
    values[:40][RNG.random((40, 5, 4)) < 0.05] = -np.inf
    contrasts = np.concatenate([pair(5, row, 0) for row in range(1, 5)])
    together = test_contrasts(values, contrasts)
    for number, of_table in enumerate(values):
        alone = test_contrasts(of_table[None], contrasts)
        for name in ("advantage", "error", "freedom", "above", "below"):
            np.testing.assert_allclose(getattr(together, name)[number], getattr(alone, name)[0], rtol=1e-9)


def test_a_large_table_needs_no_array_of_runs_by_runs() -> None:
    values = np.random.default_rng(0).normal(size=(1, 100, 20))
    contrasts = np.eye(100)[1:] - np.eye(100)[:1]
    tracemalloc.start()
    try:
        test_contrasts(values, contrasts)
        assert tracemalloc.get_traced_memory()[1] < 2000 * 2000 * 8 / 2
    finally:
        tracemalloc.stop()
