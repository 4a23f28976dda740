"""One model of a table's numbers: row and seed effects by least squares, with a spread pooled over rows.

docs/STATISTICS.md explains the rules in words. A report has one table; the simulation of verdicts
(highway/report/simulation.py) calls the same functions with thousands of tables of one shape.

Shapes: B tables, R rows, S seeds, K contrasts. A value is on the scale of the model, and higher is better.
NaN: there is no such run. -inf: the run failed (it diverged or has not learned).
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from highway.report.design import Array, design, square_sums

LEVEL = 0.05  # of all verdicts of a table together
ROW_LEVEL = 0.03  # of one row: below it, pairs with the row are judged by the rows' own spreads
SPREAD_LEVEL = 0.05  # of all rows together: below it, the row with the largest spread leaves the pool
REST_FREEDOM = 4  # degrees of freedom of the other rows from which a row is compared with them
RANK_SEEDS = 5  # runs of each row from which a pair with failed runs is judged, by ranks


@dataclass(frozen=True)
class Tests:
    """One-sided tests of contrasts, (B, K) each. Without a spread, p is 1 and the other fields are NaN."""

    advantage: Array
    error: Array  # standard error of the advantage
    freedom: Array
    above: Array  # p-value against "the advantage is 0 or less"
    below: Array  # p-value against "the advantage is 0 or more"

    @classmethod
    def none(cls, tables: int, contrasts: int) -> "Tests":
        shape = (tables, contrasts)
        advantage, error, freedom = (np.full(shape, np.nan) for _ in range(3))
        return cls(advantage, error, freedom, np.ones(shape), np.ones(shape))

    @classmethod
    def joined(cls, parts: "Sequence[Tests]") -> "Tests":
        names = [item.name for item in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts], axis=1) for name in names))

    def part(self, contrasts: slice) -> "Tests":
        return Tests(*(getattr(self, item.name)[:, contrasts] for item in fields(self)))

    def put(self, where: tuple[Any, ...], advantage: Array, error: Array, freedom: Array | float) -> None:
        """Set t-tests at these places."""
        freedom = np.broadcast_to(freedom, advantage.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where((advantage == 0) & (error == 0), 0.0, advantage / error)
        self.advantage[where], self.error[where], self.freedom[where] = advantage, error, freedom
        self.above[where], self.below[where] = special.stdtr(freedom, -t), special.stdtr(freedom, t)


def test_contrasts(values: Array, contrasts: Array, offsets: Array | float = 0.0, floor: float = 0.0) -> Tests:
    """Test contrasts (K, R) of rows, which sum to zero, plus their offsets (K,). No spread is taken below `floor`."""
    offsets = np.broadcast_to(np.asarray(offsets, float), (len(contrasts),))
    tests = Tests.none(len(values), len(contrasts))
    by_ranks = has_ranks(contrasts, offsets)
    failed = np.isneginf(values)
    patterns = np.concatenate([~np.isnan(values), failed], axis=2)
    for pattern, tables in groups(patterns):
        runs, failures = np.split(pattern, 2, axis=1)
        sound: NDArray[np.bool_] = np.logical_and(runs.any(axis=1), ~failures.any(axis=1))
        _test_sound(values[tables], runs & sound[:, None], (contrasts, offsets, floor), tables, tests)
        for number, contrast in enumerate(contrasts):
            if np.any(contrast[~sound] != 0) and by_ranks[number]:
                _test_ranks(values[tables], contrast, runs, (tables, number), tests)
    return tests


test_contrasts.__test__ = False  # type: ignore[attr-defined]  # pytest takes any test_* for a test


def groups(patterns: NDArray[np.bool_]) -> list[tuple[NDArray[np.bool_], NDArray[np.intp]]]:
    """Return each distinct pattern of the tables, and the numbers of the tables that have it."""
    if (patterns == patterns[:1]).all():
        return [(patterns[0], np.arange(len(patterns)))]
    distinct, which = np.unique(patterns, axis=0, return_inverse=True)
    return [(pattern, np.flatnonzero(which.ravel() == number)) for number, pattern in enumerate(distinct)]


def _test_sound(
    values: Array, runs: NDArray[np.bool_], wanted: tuple[Array, Array, float], tables: NDArray[np.intp], tests: Tests
) -> None:
    """Test the contrasts between rows without failed runs."""
    contrasts, offsets, floor = wanted
    used = contrasts != 0
    shared = design(runs).shared
    possible = ~(used & ~runs.any(1)).any(1)
    for wide, members in groups(np.concatenate(wide_rows(values, runs, shared, floor), axis=1)):
        apart, wide = np.split(wide, 2)
        pool = runs & ~apart[:, None]
        fitted = design(pool, shared)
        pooled = np.flatnonzero(possible & ~(used & wide).any(1) & fitted.estimable(contrasts))
        if fitted.freedom and len(pooled):
            squares, _ = square_sums(values[members], pool, shared)
            spread = np.maximum(np.sqrt(squares / fitted.freedom), floor)
            weights = fitted.weights(contrasts[pooled])
            advantage = values[members][:, pool] @ weights.T + offsets[pooled]
            error = spread[:, None] * np.sqrt(np.square(weights).sum(1))
            tests.put(np.ix_(tables[members], pooled), advantage, error, fitted.freedom)
        for number in np.flatnonzero(possible & (used & wide).any(1)):
            rows = used[number]
            estimate = _own_differences if shared else _welch
            found = estimate(values[members][:, rows], runs[rows], contrasts[number, rows], floor)
            if found:
                advantage, error, freedom = found
                tests.put((tables[members], number), advantage + offsets[number], error, freedom)


def wide_rows(
    values: Array, runs: NDArray[np.bool_], shared: bool, floor: float = 0.0
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which rows (B, R) have a clearly larger spread than the rest.

    What a row adds to the residual squares of the other rows' own fit is independent of those squares, so the ratio of
    the two has an F distribution. The row of the smallest p leaves first, after Bonferroni's correction. A rest of few
    degrees of freedom is mostly found to be narrower by chance, and every test that uses it then finds a difference; so
    it must have REST_FREEDOM. No spread of the rest is taken below `floor`: rounding would else make hundreds of equal
    rows leave, a search for each.
    """
    apart, wide = np.zeros(values.shape[:2], bool), np.zeros(values.shape[:2], bool)
    active = np.arange(len(values))
    while len(active):
        leaving = []
        for pattern, members in groups(apart[active]):
            tables, pool = active[members], runs & ~pattern[:, None]
            fitted = design(pool, shared)
            residuals = fitted.residuals(values[tables][:, pool])
            added = fitted.added_squares(residuals)
            rest = np.maximum(np.square(residuals).sum(1, keepdims=True) - added, 1e-30)
            rest_freedom = fitted.freedom - fitted.added_freedom
            testable = (fitted.added_freedom > 0) & (rest_freedom >= REST_FREEDOM)
            p = np.ones(added.shape)
            degrees = fitted.added_freedom[testable], rest_freedom[testable]
            spread = np.maximum(rest[:, testable] / degrees[1], floor**2)
            ratio = added[:, testable] / degrees[0] / spread
            p[:, testable] = special.fdtrc(*degrees, np.maximum(ratio, 0))
            widest = p.argmin(1)
            found = p[np.arange(len(tables)), widest] * max(testable.sum(), 1) < SPREAD_LEVEL
            apart[tables[found], widest[found]] = True
            wide[tables] = apart[tables] | (p < ROW_LEVEL)
            leaving.append(tables[found])
        active = np.concatenate(leaving)
    return apart, wide


def _own_differences(
    values: Array, runs: NDArray[np.bool_], contrast: Array, floor: float
) -> tuple[Array, Array, float] | None:
    """Estimate a contrast by its values at the seeds that all its rows have."""
    common = runs.all(0)
    if common.sum() < 2:
        return None
    return one_sample(
        np.einsum("r,brs->bs", contrast, values[:, :, common]), floor * np.sqrt(np.square(contrast).sum())
    )


def one_sample(differences: Array, floor: float) -> tuple[Array, Array, float]:
    """Return mean, standard error and degrees of freedom of differences (..., seeds)."""
    count = differences.shape[-1]
    spread = np.maximum(differences.std(-1, ddof=1), floor)
    return differences.mean(-1), spread / np.sqrt(count), count - 1.0


def _welch(values: Array, runs: NDArray[np.bool_], contrast: Array, floor: float) -> tuple[Array, Array, Array] | None:
    """Estimate a contrast by the mean and the spread that each row has by itself (Welch, Satterthwaite)."""
    if (runs.sum(1) < 2).any():
        return None
    rows = [values[:, row, runs[row]] for row in range(len(runs))]
    means = np.stack([row.mean(1) for row in rows], axis=1)
    parts = np.stack(
        [
            weight**2 * np.maximum(row.var(1, ddof=1), floor**2) / row.shape[1]
            for weight, row in zip(contrast, rows, strict=True)
        ],
        axis=1,
    )
    square = parts.sum(1)
    freedom = square**2 / (parts**2 / (runs.sum(1) - 1)).sum(1)
    return means @ contrast, np.sqrt(square), freedom


def has_ranks(contrasts: Array, offsets: Array | float) -> NDArray[np.bool_]:
    """Return which contrasts (K, R) ranks can judge where runs failed: a row against another, without an offset."""
    alone: NDArray[np.bool_] = (np.abs(contrasts).sum(1) == 2) & (np.asarray(offsets) == 0)
    return alone


def seeds_of_ranks(level: float) -> int:
    """Return the least seeds of two rows from which ranks reach a level if each run of one is the better."""
    return next(seeds for seeds in itertools.count(RANK_SEEDS) if 1 / math.comb(2 * seeds, seeds) <= level)


def _test_ranks(
    values: Array, contrast: Array, runs: NDArray[np.bool_], where: tuple[NDArray[np.intp], int], tests: Tests
) -> None:
    """Test a pair in which runs failed: a failed run is worse than any other, and as bad as any failed one."""
    row, than = int(contrast.argmax()), int(contrast.argmin())
    if min(runs[row].sum(), runs[than].sum()) >= RANK_SEEDS:
        above, below = rank_test(values[:, row, runs[row]], values[:, than, runs[than]])
        tests.above[where], tests.below[where] = above, below


def rank_test(row: Array, than: Array) -> tuple[Array, Array]:
    """Return exact p-values (B,) of the rank-sum test, for `row` (B, n) better than `than` (B, m) and for worse."""
    from scipy import stats  # takes half a second to import, and most reports do without it

    ranks = np.rint(2 * stats.rankdata(np.concatenate([row, than], axis=1), axis=1)).astype(int)
    sums = ranks[:, : row.shape[1]].sum(1)
    p = np.empty((2, len(row)))
    for number, (of_table, total) in enumerate(zip(np.sort(ranks, axis=1), sums, strict=True)):
        chances = _rank_sums(tuple(of_table.tolist()), row.shape[1])
        p[:, number] = chances[total:].sum(), chances[: total + 1].sum()
    return np.minimum(p[0], 1), np.minimum(p[1], 1)


@cache
def _rank_sums(doubled_ranks: tuple[int, ...], size: int) -> Array:
    """Return the probability of each sum of `size` of these numbers, drawn without replacement."""
    ways = np.zeros((size + 1, sum(doubled_ranks) + 1))
    ways[0, 0] = 1
    for rank in doubled_ranks:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    return ways[size] / ways[size].sum()


def kendall_test(one: Array, other: Array) -> tuple[Array, Array]:
    """Return exact p-values (B,) for two orders (B, n) that agree more than by chance, and for opposed ones.

    Ties have no exact distribution here, so scipy's approximation is taken for them.
    """
    from scipy import stats

    above, below = np.empty(len(one)), np.empty(len(one))
    size = one.shape[1]
    first, second = np.triu_indices(size, 1)
    signs = np.sign(one[:, first] - one[:, second]) * np.sign(other[:, first] - other[:, second])
    chances = _inversions(size)
    for number, of_pairs in enumerate(signs):
        if of_pairs.all():
            discordant = np.count_nonzero(of_pairs == -1)
            above[number], below[number] = chances[: discordant + 1].sum(), chances[discordant:].sum()
        else:
            above[number], below[number] = (
                np.nan_to_num(stats.kendalltau(one[number], other[number], alternative=side).pvalue, nan=1.0)
                for side in ("greater", "less")
            )
    return above, below


@cache
def _inversions(size: int) -> Array:
    """Return the probability of each number of discordant pairs of two unrelated orders."""
    chances = np.ones(1)
    for length in range(2, size + 1):
        chances = np.convolve(chances, np.ones(length) / length)
    return chances


def holm(p_values: Array) -> Array:
    """Correct p-values for multiple comparisons along the last axis (Holm 1979)."""
    order = np.argsort(p_values, axis=-1)
    ranked = np.take_along_axis(p_values, order, -1) * np.arange(p_values.shape[-1], 0, -1)
    corrected = np.empty_like(p_values)
    np.put_along_axis(corrected, order, np.minimum(np.maximum.accumulate(ranked, -1), 1), -1)
    return corrected


def contrast_deviations(values: Array, contrasts: Array, floor: float) -> tuple[Array, Array, NDArray[np.bool_]] | None:
    """Return the standard deviation (K,) of each contrast of one table's runs (1, R, S), and its degrees of freedom.

    The third is where it is the rows' own; elsewhere it comes from the pooled spread. None if no row has a second run.
    """
    runs = ~np.isnan(values[0])
    runs[np.isneginf(values[0]).any(1)] = False
    shared = design(runs).shared
    apart, wide = wide_rows(values, runs, shared, floor)
    squares, freedom = square_sums(values, runs & ~apart[0][:, None], shared)
    if not freedom:
        return None
    deviations = max(float(np.sqrt(squares[0] / freedom)), floor) * np.sqrt(np.square(contrasts).sum(1))
    degrees, own = np.full(len(contrasts), float(freedom)), np.zeros(len(contrasts), bool)
    for number, contrast in enumerate(contrasts):
        rows = contrast != 0
        estimate = _own_differences if shared else _welch
        if (rows & wide[0]).any() and (found := estimate(values[:, rows], runs[rows], contrast[rows], floor)):
            count = runs[rows].all(0).sum() if shared else runs[rows].sum(1).min()
            deviations[number], own[number] = found[1][0] * np.sqrt(count), True
            degrees[number] = np.broadcast_to(found[2], 1)[0]
    return deviations, degrees, own


def row_spread(values: Array, floor: float = 0.0) -> tuple[Array, Array]:
    """Return the standard deviation of a run of each row, and its degrees of freedom, (B, R) each.

    Differences between seeds are part of it here. Rows that share seeds share those differences, so the degrees of
    freedom are Satterthwaite's for the two parts. A row with a clearly larger spread has its own. No failed runs.
    """
    spread, freedom = (np.full(values.shape[:2], np.nan) for _ in range(2))
    for runs, tables in groups(~np.isnan(values)):
        shared = design(runs).shared
        for wide, members in groups(wide_rows(values[tables], runs, shared, floor)[0]):
            chosen = values[tables[members]]
            pool = runs & ~wide[:, None]
            squares, degrees = square_sums(chosen, pool, False)
            inner, inner_degrees = square_sums(chosen, pool, shared)
            of_seeds = degrees - inner_degrees
            if degrees:
                parts = (squares - inner) ** 2 / max(of_seeds, 1) + inner**2 / max(inner_degrees, 1)
                effective = np.where(parts > 0, squares**2 / np.maximum(parts, 1e-300), degrees)
                pooled = np.ix_(tables[members], np.flatnonzero(~wide))
                spread[pooled] = np.sqrt(squares / degrees)[:, None]
                freedom[pooled] = effective[:, None]
            for row in np.flatnonzero(wide):
                spread[tables[members], row] = chosen[:, row, runs[row]].std(1, ddof=1)
                freedom[tables[members], row] = runs[row].sum() - 1
    return np.maximum(spread, floor), freedom
