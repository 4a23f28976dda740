"""The model of a table's numbers, against naive versions and scipy."""

import itertools
import tracemalloc

import numpy as np
import pytest
from scipy import stats

from highway.report import model
from highway.report.design import design
from highway.report.model import Array, holm, kendall_test, rank_test, row_spread, test_contrasts, wide_rows

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


def regression(values: Array, row: int, than: int, seeds: bool = True) -> tuple[float, float, int]:
    """Return a difference of rows by ordinary least squares with dummies: its size, standard error, freedom."""
    rows, columns = np.nonzero(~np.isnan(values))
    matrix = [(rows == number).astype(float) for number in range(values.shape[0])]
    matrix += [(columns == number).astype(float) for number in range(1, values.shape[1])] if seeds else []
    x, y = np.stack(matrix, axis=1), values[rows, columns]
    estimate, squares, rank, _ = np.linalg.lstsq(x, y, rcond=None)
    freedom = len(y) - rank
    contrast = np.zeros(x.shape[1])
    contrast[row], contrast[than] = 1, -1
    variance = squares[0] / freedom * contrast @ np.linalg.inv(x.T @ x) @ contrast
    return float(contrast @ estimate), float(np.sqrt(variance)), int(freedom)


@pytest.mark.usefixtures("one_spread")
@pytest.mark.parametrize("missing", [False, True])
def test_rows_that_share_seeds_have_seed_effects(missing: bool) -> None:
    """Six rows with three seeds have ten degrees of freedom; missing runs are left out of the same regression."""
    values = table()
    if missing:
        values[0][MISSING] = np.nan
    tests = test_contrasts(values, pair(6, 1, 4))
    size, error, freedom = regression(values[0], 1, 4)
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
    values[0, 0, :4], values[0, 1, 4:] = RNG.normal(size=4), RNG.normal(size=4)
    expected = stats.ttest_ind(values[0, 0, :4], values[0, 1, 4:], alternative="less").pvalue
    assert test_contrasts(values, pair(2, 0, 1)).below[0, 0] == pytest.approx(expected)


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


def test_the_spread_of_a_row_is_compared_with_the_rest_by_an_f_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """The naive version fits the model with and without the row; a level just above and below its p decides."""
    values = table(rows=4, seeds=4)
    values[0, 1] *= 4
    runs = np.ones((4, 4), bool)

    def squares(chosen: Array) -> float:
        fitted = chosen.mean(1, keepdims=True) + chosen.mean(0) - chosen.mean()
        return float(np.square(chosen - fitted).sum())

    rest, whole = squares(values[0, [0, 2, 3]]), squares(values[0])
    p = stats.f.sf(((whole - rest) / 3) / (rest / 6), 3, 6)
    for level, wide in ((p * 1.001, True), (p * 0.999, False)):
        monkeypatch.setattr(model, "ROW_LEVEL", level)
        monkeypatch.setattr(model, "SPREAD_LEVEL", 0.0)
        assert bool(wide_rows(values, runs, True)[1][0, 1]) is wide
        monkeypatch.setattr(model, "ROW_LEVEL", 0.0)
        monkeypatch.setattr(model, "SPREAD_LEVEL", level * 4)  # Bonferroni's correction for four rows
        assert bool(wide_rows(values, runs, True)[0][0, 1]) is wide


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


@pytest.mark.parametrize("failed", [0, 1, 3])
def test_ranks_are_tested_exactly(failed: int) -> None:
    """The naive version lists every way to deal the runs to the two rows."""
    row, than = RNG.normal(size=5) + 1, RNG.normal(size=6)
    than[:failed] = -np.inf
    above, below = rank_test(row[None], than[None])
    ranks = stats.rankdata(np.concatenate([row, than]))
    sums = [ranks[list(dealt)].sum() for dealt in itertools.combinations(range(11), 5)]
    assert above[0] == pytest.approx(np.mean(np.array(sums) >= ranks[:5].sum()))
    assert below[0] == pytest.approx(np.mean(np.array(sums) <= ranks[:5].sum()))
    if not failed:
        exact = stats.mannwhitneyu(row, than, alternative="greater", method="exact").pvalue
        assert above[0] == pytest.approx(exact)


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
    assert kendall_test(np.ones((1, size)), np.arange(size)[None].astype(float))[0][0] == 1


def test_holms_correction() -> None:
    p = RNG.random((3, 7)) ** 3
    for of_table, corrected in zip(p, holm(p), strict=True):
        highest = 0.0
        for rank, number in enumerate(np.argsort(of_table)):
            highest = max(highest, min(1.0, of_table[number] * (7 - rank)))
            assert corrected[number] == pytest.approx(highest)
    assert holm(np.array([0.01, 0.04, 0.03])) == pytest.approx([0.03, 0.06, 0.06])


@pytest.mark.usefixtures("one_spread")
def test_the_spread_of_one_run_has_seed_effects_in_it() -> None:
    """Satterthwaite's degrees of freedom lie between those of one row and those of all, as far as seeds agree."""
    for shift, freedom in ((0.0, (4.0, 24.0)), (50.0, (3.9, 4.1))):
        values = table(rows=6, seeds=5, correlated=False) + shift * RNG.normal(size=(1, 1, 5))
        spread, degrees = row_spread(values)
        assert spread[0, 0] == pytest.approx(np.sqrt(values[0].var(axis=1, ddof=1).mean()))
        assert freedom[0] <= degrees[0, 0] <= freedom[1]
    assert (row_spread(values, floor=1e9)[0] == 1e9).all()


def test_a_wide_row_has_a_spread_of_its_own() -> None:
    values = table(rows=6, seeds=5)
    values[0, 2] *= 1e4
    spread, degrees = row_spread(values)
    assert spread[0, 2] == pytest.approx(values[0, 2].std(ddof=1)) and degrees[0, 2] == 4


def test_many_tables_are_tested_as_each_alone() -> None:
    """The simulation tests thousands at once; reports test one. Both give the same numbers."""
    values = RNG.normal(size=(40, 5, 4))
    values[::3, 2] *= 9
    values[RNG.random(values.shape) < 0.1] = np.nan
    values[RNG.random(values.shape) < 0.05] = -np.inf
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
