"""Tests of the claims of a table: p-values for and against each claim, corrected over all claims of the table's file.

Reports and the simulation of verdicts both call `judge_claims`; each brings its numbers as a `Source`.
Shapes as in model.py: B tables, R rows, S seeds; C claims.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from highway.config.metrics import METRICS
from highway.report.model import LEVEL, Array, Tests, holm, kendall_test, test_contrasts
from highway.sweep.table import Claim


class Source(Protocol):
    """The numbers of one table, or of many simulated ones of the same shape."""

    @property
    def rows(self) -> Sequence[str]: ...

    @property
    def place(self) -> NDArray[np.intp]:
        """The row (R,) at which the values of each row stand: rows that are the same runs share one."""

    def values(self, metric: str, log: bool) -> Array:
        """Return a metric by row and seed (B, R, S) on the scale of the model: higher is better. Runs stand once."""

    def floor(self, metric: str, log: bool) -> float:
        """Return the least spread that the metric can resolve."""

    def reached(self, row: str, than: str, metric: str) -> Array:
        """Return (B, 2, S): less the steps at which `row` and `than` first reach the final value of `than`."""

    def step_floor(self, metric: str) -> float:
        """Return the least spread of steps that validations can resolve."""


def on_log_scale(metric: str) -> bool:
    """Return whether the spread of a metric grows with its mean, so that ratios are compared."""
    card = METRICS[metric]
    return card.kind == "ppl" or card.unit in ("seconds", "hours", "tokens a second", "MiB")


def contrasts_of(claim: Claim, rows: Sequence[str]) -> Array:
    """Return the contrasts (K, R) of rows that are all positive if the claim is true."""
    position = {name: number for number, name in enumerate(rows)}
    differences = []
    for row, than in pairs_of(claim):
        differences.append(np.zeros(len(rows)))
        differences[-1][position[row]] = 1
        differences[-1][position[than]] = -1
    if claim.kind == "growing":
        differences = [later - earlier for earlier, later in itertools.pairwise(differences)]
    return np.stack(differences)


def placed(contrasts: Array, place: NDArray[np.intp]) -> Array:
    """Return contrasts (K, R) of the rows at which the values stand."""
    found = np.zeros_like(contrasts)
    np.add.at(found.T, place, contrasts.T)
    return found


@dataclass(frozen=True)
class ClaimTest:
    """The test of a claim in B tables, before the correction over claims."""

    supported: Array  # (B,) p-value
    refuted: Array
    pairs: Tests | None = None  # by pair, or by step of a growth; None for a claim on ranks


def test_claims(claims: Sequence[Claim], source: Source) -> list[ClaimTest]:
    """Test each claim. It is supported if all its contrasts are positive, and refuted if any is negative."""
    tests: dict[int, ClaimTest] = {}
    by_numbers: dict[tuple[str, bool], list[int]] = {}
    for number, claim in enumerate(claims):
        if claim.to:
            tests[number] = _test_order(claim, source)
        elif claim.kind == "sooner":
            tests[number] = _of_pairs(_test_steps(claim, source))
        else:
            by_numbers.setdefault((claim.metric, ratios_of(claim)), []).append(number)
    for (metric, log), numbers in by_numbers.items():
        contrasts = {number: placed(contrasts_of(claims[number], source.rows), source.place) for number in numbers}
        offsets = [np.full(len(of_claim), offset_of(claims[number])) for number, of_claim in contrasts.items()]
        rows, floor = np.concatenate([*contrasts.values()]), source.floor(metric, log)
        together, end = test_contrasts(source.values(metric, log), rows, np.concatenate(offsets), floor), 0
        for number, of_claim in contrasts.items():
            start, end = end, end + len(of_claim)
            tests[number] = _of_pairs(together.part(slice(start, end)))
    return [tests[number] for number in range(len(claims))]


test_claims.__test__ = False  # type: ignore[attr-defined]  # pytest takes any test_* for a test


def ratios_of(claim: Claim) -> bool:
    """Return whether a claim compares ratios, that is, logarithms."""
    return on_log_scale(claim.metric) or claim.kind == "within"


def offset_of(claim: Claim) -> float:
    """Return what a claim adds to each of its contrasts, from the share that it allows."""
    sign = 1.0 if METRICS[claim.metric].better == "lower" else -1.0
    return sign * math.log1p(claim.share)


def _of_pairs(tests: Tests) -> ClaimTest:
    """Combine the tests of all pairs: every pair has to hold, and one opposite pair refutes (Bonferroni)."""
    count = tests.above.shape[1]
    return ClaimTest(tests.above.max(1), np.minimum(count * tests.below.min(1), 1), tests)


def _test_steps(claim: Claim, source: Source) -> Tests:
    """Test by how many steps each pair differs."""
    floor, pair = source.step_floor(claim.metric), np.array([[1.0, -1.0]])
    return Tests.joined(
        [test_contrasts(source.reached(*names, claim.metric), pair, 0.0, floor) for names in pairs_of(claim)]
    )


def pairs_of(claim: Claim) -> list[tuple[str, str]]:
    """Return the pairs of rows that a claim compares; those of a growth are in order."""
    if claim.paired or claim.kind == "growing":
        return list(zip(claim.rows, claim.than, strict=True))
    return list(itertools.product(claim.rows, claim.than))


def _test_order(claim: Claim, source: Source) -> ClaimTest:
    """Test whether two metrics order the rows alike, on means over seeds."""
    orders = [order_of(source, metric, claim.rows) for metric in (claim.metric, claim.to)]
    known = np.isfinite(np.concatenate(orders, axis=1).sum(axis=1))
    agree, opposed = (np.ones(len(known)) for _ in range(2))
    agree[known], opposed[known] = kendall_test(orders[0][known], orders[1][known])
    if claim.kind == "opposed":
        return ClaimTest(opposed, agree)
    return ClaimTest(np.ones(len(known)), np.minimum(2 * np.minimum(agree, opposed), 1))  # no relation: cannot be shown


def order_of(source: Source, metric: str, rows: Sequence[str]) -> Array:
    """Return the mean of each row (B, rows) over its sound runs, in the metric's own direction; NaN without any."""
    position = source.place[[list(source.rows).index(name) for name in rows]]
    values = source.values(metric, on_log_scale(metric))[:, position]
    sound = np.isfinite(values)
    count = sound.sum(2)
    means = np.where(sound, values, 0).sum(2) / np.where(count, count, np.nan)
    return means if METRICS[metric].better == "higher" else -means


def judge_claims(claims: Sequence[Claim], source: Source) -> tuple[list[ClaimTest], Array, Array]:
    """Return the tests, and the p-values (B, C) for and against each claim, corrected by Holm's method for all."""
    tests = test_claims(claims, source)
    corrected = holm(np.stack([side for test in tests for side in (test.supported, test.refuted)], axis=1))
    return tests, corrected[:, 0::2], corrected[:, 1::2]


def strictest_level(claims: Sequence[Claim]) -> float:
    """Return the level that Holm's method demands of the smallest p-value of these claims."""
    return LEVEL / (2 * len(claims))


def decide(supported: Array, refuted: Array) -> NDArray[np.int_]:
    """Return 1 where a claim is supported, -1 where it is refuted, and 0 where it stays open."""
    return np.where(supported < LEVEL, 1, np.where(refuted < LEVEL, -1, 0))
