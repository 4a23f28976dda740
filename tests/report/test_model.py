"""The model of a table's numbers, against scipy and statsmodels."""

from typing import Any

import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.multitest import multipletests

from highway.report import model
from highway.report.model import (
    Array,
    holm,
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
@pytest.mark.parametrize("missing", [False, True])
def test_rows_that_share_seeds_have_seed_effects(missing: bool) -> None:
    """Six rows with three seeds have ten degrees of freedom; missing runs are left out of the same regression.

    Row 2 misses a seed then, so that its mean over the others is corrected for what those seeds do.
    """
    values, row = table(), 2
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


def test_the_spread_of_a_row_is_compared_with_the_rest_by_an_f_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A level just above and below the p of statsmodels decides, where each run of the row has an effect or none."""
    rows, seeds = 4, 4
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


@pytest.mark.parametrize(("seeds", "wide"), [(4, False), (5, True)])
def test_a_row_is_compared_with_a_rest_of_four_degrees_of_freedom_or_more(seeds: int, wide: bool) -> None:
    """The other two rows have as many degrees of freedom as seeds but one."""
    values = np.random.default_rng(1).normal(size=(1, 3, seeds))
    values[0, 1] *= 1e4
    for found in wide_rows(values, np.ones((3, seeds), bool), True):
        assert found.tolist() == [[False, wide, False]]


def test_pairs_that_only_a_wide_row_connected_are_not_judged_by_the_pool() -> None:
    rng, runs = np.random.default_rng(1), np.zeros((5, 6), bool)
    runs[:2, :3] = runs[2:4, 3:] = runs[4] = True
    values = 0.3 * rng.normal(size=(2000, 5, 6)) + rng.normal(size=(2000, 1, 6))
    values[:, 4] += 3 * rng.normal(size=(2000, 6))
    values[:, ~runs] = np.nan
    across = test_contrasts(values, pair(5, 0, 2))
    assert np.mean(np.minimum(across.above, across.below) < 0.025) < 0.06


def test_no_spread_is_below_the_floor() -> None:
    """Equal values of two seeds are no proof: the least spread is what the metric resolves."""
    values = np.array([[[1.0, 1.0], [1.5, 1.5]]])
    assert test_contrasts(values, pair(2, 1, 0)).above[0, 0] == pytest.approx(0)
    tests = test_contrasts(values, pair(2, 1, 0), floor=0.25)
    assert tests.error[0, 0] == pytest.approx(0.25 * np.sqrt(2 / 2))
    assert tests.above[0, 0] == pytest.approx(stats.t.sf(2.0, 1))


def rank_sum(row: Array, than: Array) -> float:
    return float(stats.rankdata(np.concatenate([row, than]))[: len(row)].sum())


@pytest.mark.parametrize("failed", [0, 2])
def test_ranks_are_tested_exactly(failed: int) -> None:
    """Scipy deals the runs to the two rows in every way, and has an exact test if none are equal."""
    row, than = RNG.normal(size=5) + 1, RNG.normal(size=6)
    than[:failed] = -np.inf
    above, below = rank_test(row[None], than[None])
    for p, side in ((above, "greater"), (below, "less")):
        dealt = stats.permutation_test((row, than), rank_sum, alternative=side)
        assert p[0] == pytest.approx(dealt.pvalue)


@pytest.mark.usefixtures("one_spread")
@pytest.mark.parametrize(("seeds", "decided"), [(4, False), (5, True)])
def test_pairs_with_failed_runs_are_judged_by_ranks_from_five_seeds(seeds: int, decided: bool) -> None:
    values = table(rows=3, seeds=seeds)
    values[0, 0] = -np.inf
    tests = test_contrasts(values, np.concatenate([pair(3, 1, 0), pair(3, 1, 2)]))
    assert tests.above[0, 0] == (pytest.approx(1 / 252) if decided else 1)
    assert tests.error[0, 1] == pytest.approx(regression(values[0, 1:], 0, 1)[1]), "the row leaves the others' pool"


def test_holms_correction() -> None:
    p = RNG.random((3, 7)) ** 3
    for of_table, corrected in zip(p, holm(p), strict=True):
        assert corrected == pytest.approx(multipletests(of_table, method="holm")[1])
    assert holm(np.array([0.01, 0.02, 0.02])) == pytest.approx(multipletests([0.01, 0.02, 0.02], method="holm")[1])


@pytest.mark.usefixtures("one_spread")
def test_degrees_of_freedom_of_one_run_are_satterthwaites_for_seeds_and_rest() -> None:
    """They are Welch's for two samples of which the variances of the means are the two sums of squares."""
    rows, seeds = 6, 5
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


def test_many_tables_are_tested_as_each_alone() -> None:
    """The simulation tests thousands at once; reports test one. Both give the same numbers, also of equal patterns."""
    values = RNG.normal(size=(30, 5, 4))
    values[::3, 2] *= 9
    values[:20][RNG.random((20, 5, 4)) < 0.1] = np.nan
    values[:20][RNG.random((20, 5, 4)) < 0.05] = -np.inf
    contrasts = np.concatenate([pair(5, row, 0) for row in range(1, 5)])
    together = test_contrasts(values, contrasts)
    for number, of_table in enumerate(values):
        alone = test_contrasts(of_table[None], contrasts)
        for name in ("advantage", "error", "freedom", "above", "below"):
            np.testing.assert_allclose(getattr(together, name)[number], getattr(alone, name)[0], rtol=1e-9)
