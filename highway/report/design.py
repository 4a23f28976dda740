"""Least squares of row and seed effects for one pattern of runs. Shapes as in model.py."""

import itertools
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Design:
    """Least squares for one pattern of runs, in arrays that grow with the runs and not with their square.

    N: the number of runs, row after row; T: the number of seeds with effects, 0 for rows alone.
    """

    rows: NDArray[np.intp]  # the rows that have runs, whose number is r
    counts: NDArray[np.intp]  # (r,) runs of each
    shares: Array  # (r, T): the share of each seed in the runs of a row
    centred: Array  # (N, T): 1 where a run has the seed, less the share of the seed in the run's row
    inverse: Array  # (T, N): its pseudo-inverse
    freedom: int  # residual degrees of freedom
    shared: bool  # True: with seed effects; False: rows alone
    forms: tuple[Array, ...]  # by row: the quadratic form of what its residuals add to the squares of the others' fit
    added_freedom: Array  # (R,)

    def weights(self, contrasts: Array) -> Array:
        """Return the weights (K, N) of the runs in estimates of contrasts (K, R) between rows that have runs."""
        of_rows = contrasts[:, self.rows]
        return np.repeat(of_rows / self.counts, self.counts, axis=1) - (of_rows @ self.shares) @ self.inverse

    def estimable(self, contrasts: Array) -> NDArray[np.bool_]:
        """Return for which contrasts (K, R) the effects of seeds cancel: shared seeds connect their rows."""
        of_seeds = contrasts[:, self.rows] @ self.shares
        uncancelled = of_seeds - of_seeds @ self.inverse @ self.centred
        return np.square(uncancelled).sum(1) < 1e-12

    def residuals(self, values: Array) -> Array:
        """Return the residuals of values (B, N)."""
        within = values - _row_means(values.T, self.counts).repeat(self.counts, axis=0).T
        return within - (within @ self.centred) @ self.inverse

    def added_squares(self, residuals: Array) -> Array:
        """Return (B, R): what each row adds to the residual squares of the other rows' own fit."""
        squares = np.zeros((len(residuals), len(self.added_freedom)))
        for row, form, runs in zip(self.rows, self.forms, _runs_of(self.counts), strict=True):
            squares[:, row] = (residuals[:, runs] * (residuals[:, runs] @ form)).sum(1)
        return squares


def _row_means(runs: Array, counts: NDArray[np.intp]) -> Array:
    """Return the mean (r, ...) of the runs (N, ...) of each row."""
    if not len(counts):
        return runs
    return (np.add.reduceat(runs, np.cumsum(counts) - counts).T / counts).T


def _runs_of(counts: NDArray[np.intp]) -> list[slice]:
    return [slice(*ends) for ends in itertools.pairwise((0, *np.cumsum(counts).tolist()))]


def design(runs: NDArray[np.bool_], shared: bool | None = None) -> Design:
    """Return the design for runs (R, S).

    `shared` None: with seed effects if shared seeds connect all rows, and the runs are more than all effects.
    """
    rows, seeds = runs.any(1), runs.any(0)
    used = runs[rows][:, seeds]
    fitted = _design(used.tobytes(), used.shape, shared)
    added_freedom = np.zeros(len(runs))
    added_freedom[rows] = fitted.added_freedom
    return replace(fitted, rows=np.flatnonzero(rows), added_freedom=added_freedom)


@lru_cache(maxsize=256)  # of 5,336 runs, 0.7 MB each
def _design(runs: bytes, shape: tuple[int, int], shared: bool | None) -> Design:
    """Return the design for runs of which every row and every seed has some.

    Seeds less their shares are orthogonal to the rows, so that they are fitted alone (Frisch, Waugh and Lovell).
    """
    used = np.frombuffer(runs, bool).reshape(shape)
    counts, of_seeds = used.sum(1), np.eye(shape[1])[np.nonzero(used)[1]]
    shares = _row_means(of_seeds, counts)
    centred = of_seeds - shares.repeat(counts, axis=0)
    rank = shape[0] + (int(np.linalg.matrix_rank(centred)) if len(centred) else 0)
    if shared is None:
        shared = rank == sum(shape) - 1 and len(centred) > rank
    if not shared:
        shares, centred = shares[:, :0], centred[:, :0]
    inverse = np.asarray(np.linalg.pinv(centred, rcond=1e-9) if centred.size else centred.T, float)
    patterns, slices = [row.tobytes() for row in used], _runs_of(counts)
    blocks = {  # rows with runs of the same seeds share a block
        pattern: np.eye(counts[row]) - 1 / counts[row] - centred[slices[row]] @ inverse[:, slices[row]]
        for pattern, row in {pattern: row for row, pattern in enumerate(patterns)}.items()
    }
    by_pattern = {name: np.linalg.pinv(block, rtol=1e-9, hermitian=True) for name, block in blocks.items()}
    ranks = {name: int(np.linalg.matrix_rank(block, tol=1e-9, hermitian=True)) for name, block in blocks.items()}
    forms = tuple(by_pattern[pattern] for pattern in patterns)
    added = np.array([ranks[pattern] for pattern in patterns], float)
    freedom = len(centred) - (rank if shared else shape[0])
    return Design(np.arange(shape[0]), counts, shares, centred, inverse, freedom, shared, forms, added)


def square_sums(values: Array, runs: NDArray[np.bool_], shared: bool) -> tuple[Array, int]:
    """Return the residual sums of squares (B,) of the runs, and their degrees of freedom."""
    fitted = design(runs, shared)
    return np.square(fitted.residuals(values[:, runs])).sum(1), fitted.freedom
