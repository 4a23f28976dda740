"""Simulates tables of known rows, and counts how often the rules of docs/STATISTICS.md are wrong or find an effect.

Runs are normal with deviation 1; a metric of a table is drawn apart from the others. Verdicts come from the functions
that reports use. `highway simulate` prints the tables; a slow test holds the error rates.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from highway.report.claims import contrasts_of, decide, judge_claims, pairs_of
from highway.report.model import Array, holm
from highway.report.reproduction import compare_numbers, words
from highway.sweep.table import Claim, Table

FAR = 10.0  # deviations between rows whose order is never in doubt
TRUE = 5.0  # deviations by which half of the claims are true in case c
GRID = 0.5  # deviations between two validations
CASES = {
    "a": "all rows equal",
    "b": "each claim at its edge: one pair equal, the rest far on its side",
    "c": "half of the claims true by five deviations",
    "d -0.3": "seeds correlated -0.3 (or as far as so many rows can be), rows equal",
    "d 0.5": "seeds correlated 0.5, rows equal",
    "d 0.9": "seeds correlated 0.9, rows equal",
    "e x2": "one row with twice the spread, rows equal",
    "e x3": "one row with three times the spread, rows equal",
    "f": "one run in ten diverged, rows equal",
}
HELD = ("a", "b", "c", "d -0.3", "d 0.5", "d 0.9")  # the cases whose error must not exceed 5 %


@dataclass
class Simulated:
    """Simulated tables: metrics by row and seed, each with its true row effects (B, R); higher is better."""

    rows: tuple[str, ...]
    effects: dict[str, Array]
    numbers: dict[str, Array] = field(default_factory=dict)

    @property
    def place(self) -> NDArray[np.intp]:
        return np.arange(len(self.rows))

    def values(self, metric: str, log: bool) -> Array:
        return self.numbers[metric]

    def floor(self, metric: str, log: bool) -> float:
        return 0.0

    def reached(self, row: str, than: str, metric: str) -> Array:
        numbers = self.numbers[f"steps {metric}"][:, [self.rows.index(row), self.rows.index(than)]]
        return np.where(np.isfinite(numbers), np.round(numbers / GRID) * GRID, numbers)

    def step_floor(self, metric: str) -> float:
        return GRID / 2


def key(claim: Claim) -> str:
    """Return the array of a simulation that a claim reads."""
    return f"steps {claim.metric}" if claim.kind == "sooner" else claim.metric


def simulate(table: Table, case: str, seeds: int, count: int, rng: np.random.Generator) -> tuple[Simulated, Array]:
    """Return simulated tables of a case, and the truth of each claim (B, C): 1 true, -1 false, 0 at its edge."""
    rows = tuple(row.id for row in table.rows if not row.extra)
    metrics = dict.fromkeys(name for claim in table.claims for name in (key(claim), claim.to) if name)
    effects = {metric: np.zeros((count, len(rows))) for metric in metrics}
    if case == "b":
        _edges(table.claims, rows, effects, rng)
    elif case == "c":
        _half_true(table.claims, rows, effects, rng)
    simulated = Simulated(rows, effects)
    for metric, of_rows in effects.items():
        simulated.numbers[metric] = of_rows[:, :, None] + noise(case, (count, len(rows), seeds), rng)
    return simulated, truth(table.claims, simulated)


def noise(case: str, shape: tuple[int, int, int], rng: np.random.Generator) -> Array:
    """Return runs (B, R, S) of equal rows, as a case has them."""
    independent = rng.normal(size=shape)
    if case.startswith("d"):
        correlation = max(float(case.split()[1]), -1 / (shape[1] - 1))
        of_seeds = rng.normal(size=(shape[0], 1, shape[2]))
        if correlation >= 0:
            return np.sqrt(correlation) * of_seeds + np.sqrt(1 - correlation) * independent
        shift = 1 - np.sqrt(
            max(1 + correlation * shape[1] / (1 - correlation), 0)
        )  # of the mean over rows, which it shrinks
        return np.sqrt(1 - correlation) * (independent - shift * independent.mean(1, keepdims=True))
    if case.startswith("e"):
        wide = rng.integers(shape[1], size=shape[0])
        independent[np.arange(shape[0]), wide] *= float(case[-1])
    if case == "f":
        independent[rng.random(shape) < 0.1] = -np.inf
    return independent


def truth(claims: Sequence[Claim], simulated: Simulated) -> Array:
    """Return whether each claim (B, C) is true (1), false (-1) or at its edge (0).

    At its edge no pair is on the wrong side and one is equal, so neither verdict is right. Orders are unrelated.
    """
    columns = []
    for claim in claims:
        if claim.to:
            columns.append(np.zeros(len(simulated.effects[claim.metric])))
            continue
        least = (simulated.effects[key(claim)] @ contrasts_of(claim, simulated.rows).T).min(1)
        columns.append(np.where(np.abs(least) < 1e-6, 0, np.sign(least)))
    return np.stack(columns, axis=1)


def _edges(claims: Sequence[Claim], rows: Sequence[str], effects: dict[str, Array], rng: np.random.Generator) -> None:
    """Set row effects such that in each table one claim has one equal pair, and its other pairs are far on its side."""
    compared = [claim for claim in claims if not claim.to]
    count = len(next(iter(effects.values())))
    for number, claim in zip(range(count), rng.choice(len(compared), count), strict=False):
        of_table = effects[key(compared[claim])][number]
        _set_edge(compared[claim], rows, of_table, rng)


def _set_edge(claim: Claim, rows: Sequence[str], effects: Array, rng: np.random.Generator) -> None:
    if claim.paired or claim.kind == "growing":
        contrasts = contrasts_of(claim, rows)
        gains = np.full(len(contrasts), FAR)
        gains[rng.integers(len(gains))] = 0
        moved = [rows.index(name) for name in claim.rows[-len(contrasts) :]]  # a growth starts from its first row
        effects[moved] = np.linalg.solve(contrasts[:, moved], gains)
        return
    for names, effect in ((claim.rows, FAR), (claim.than, -FAR)):
        equal = rng.integers(len(names))
        for number, name in enumerate(names):
            effects[rows.index(name)] = 0.0 if number == equal else effect


def _half_true(
    claims: Sequence[Claim], rows: Sequence[str], effects: dict[str, Array], rng: np.random.Generator, halves: int = 20
) -> None:
    """Set row effects such that a random half of the claims, as far as they do not contradict, is true."""
    compared = [claim for claim in claims if not claim.to]
    for tables in np.array_split(np.arange(len(next(iter(effects.values())))), halves):
        for number in rng.permutation(len(compared))[: max(1, len(compared) // 2)]:
            claim = compared[number]
            of_table = effects[key(claim)][tables[0]].copy()
            satisfied = fulfil([other for other in (*done(claims, key(claim), of_table, rows), claim)], rows, of_table)
            if satisfied is not None:
                effects[key(claim)][tables] = satisfied


def done(claims: Sequence[Claim], name: str, effects: Array, rows: Sequence[str]) -> list[Claim]:
    """Return the claims on an array that these row effects fulfil by five deviations."""
    return [
        claim
        for claim in claims
        if not claim.to and key(claim) == name and (contrasts_of(claim, rows) @ effects).min() >= TRUE - 1e-6
    ]


def fulfil(claims: Sequence[Claim], rows: Sequence[str], effects: Array, size: float = TRUE) -> Array | None:
    """Return row effects near these that give all contrasts of the claims at least `size`; None if none do."""
    contrasts = np.concatenate([contrasts_of(claim, rows) for claim in claims])
    effects = effects.copy()
    for _ in range(500):
        short = size - contrasts @ effects
        if short.max() <= 1e-9:
            return effects
        worst = short.argmax()
        effects += short[worst] * contrasts[worst] / np.square(contrasts[worst]).sum()
    return None


@dataclass(frozen=True)
class Errors:
    """The number of simulated tables that had a false verdict of each kind."""

    tables: int
    supported: int
    refuted: int
    any: int

    @property
    def share(self) -> float:
        return self.any / self.tables

    @property
    def exceeds(self) -> bool:
        """True if the share of tables with a false verdict is significantly above 5 %."""
        return bool(stats.binomtest(self.any, self.tables, 0.05, alternative="greater").pvalue < 0.01)


def errors(table: Table, case: str, seeds: int, count: int, seed: int = 0) -> Errors:
    """Count the simulated tables of a case that have a false verdict."""
    rng = np.random.default_rng([seed, seeds, *case.encode(), *table.id.encode()])
    simulated, true = simulate(table, case, seeds, count, rng)
    _, *p = judge_claims(table.claims, simulated)
    words = decide(*p)
    supported, refuted = (words == 1) & (true <= 0), (words == -1) & (true >= 0)
    wrong = supported | refuted
    return Errors(count, *(int(each.any(1).sum()) for each in (supported, refuted, wrong)))


@dataclass(frozen=True)
class Power:
    """The share of true claims that are supported: by today's rule, and by the rule of commit a4d60ae."""

    today: float
    before: float


def power(table: Table, size: float, seeds: int, count: int, seed: int = 0) -> Power | None:
    """Return the power for claims on pairs that are all true by `size` deviations; None if none can be."""
    rng = np.random.default_rng([seed, seeds, int(size), *table.id.encode()])
    rows = tuple(row.id for row in table.rows if not row.extra)
    found: list[NDArray[np.bool_]] = []
    old: list[NDArray[np.bool_]] = []
    for number, claim in enumerate(table.claims):
        if claim.to or claim.kind == "growing":
            continue
        effects = fulfil([claim], rows, np.zeros(len(rows)), size)
        assert effects is not None
        metrics = dict.fromkeys(name for other in table.claims for name in (key(other), other.to) if name)
        numbers = {name: rng.normal(size=(count, len(rows), seeds)) for name in metrics}
        numbers[key(claim)] += effects[:, None]
        simulated = Simulated(rows, {}, numbers)
        _, *p = judge_claims(table.claims, simulated)
        found.append(decide(*p)[:, number] == 1)
        old.append(_before(claim, simulated) == 1)
    return Power(float(np.mean(found)), float(np.mean(old))) if found else None


def _before(claim: Claim, simulated: Simulated) -> NDArray[np.int_]:
    """Return the verdicts of commit a4d60ae: a t interval of the least advantage over the pairs, by seed."""
    pairs = [
        simulated.reached(row, than, claim.metric)
        if claim.kind == "sooner"
        else simulated.values(claim.metric, False)[:, [simulated.rows.index(row), simulated.rows.index(than)]]
        for row, than in pairs_of(claim)
    ]
    least = np.min([pair[:, 0] - pair[:, 1] for pair in pairs], axis=0)
    count = least.shape[1]
    half = stats.t.ppf(0.975, count - 1) * least.std(1, ddof=1) / np.sqrt(count)
    return np.where(least.mean(1) - half > 0, 1, np.where(least.mean(1) + half < 0, -1, 0))


def errors_before(table: Table, case: str, seeds: int, count: int, seed: int = 0) -> Errors:
    """Count the tables with a false verdict by the rule of commit a4d60ae."""
    rng = np.random.default_rng([seed, seeds, *case.encode(), *table.id.encode()])
    simulated, true = simulate(table, case, seeds, count, rng)
    claims = [number for number, claim in enumerate(table.claims) if not claim.to and claim.kind != "growing"]
    words = np.stack([_before(table.claims[number], simulated) for number in claims], axis=1)
    supported, refuted = (words == 1) & (true[:, claims] <= 0), (words == -1) & (true[:, claims] >= 0)
    return Errors(count, *(int(each.any(1).sum()) for each in (supported, refuted, supported | refuted)))


def number_rates(off: float, margin: float, seeds: int, count: int, rows: int = 6, seed: int = 0) -> dict[str, float]:
    """Return how often each word is given to the paper's numbers whose own mean is `off` deviations from ours."""
    rng = np.random.default_rng([seed, seeds, int(10 * off), int(10 * margin)])
    values = rng.normal(size=(count, rows, seeds))
    paper = rng.normal(size=(count, rows)) + off  # one run of the paper
    compared = compare_numbers(values, paper, margin, 0.0)
    given = words(compared, holm(compared.p))
    return {word: float((given == word).mean()) for word in ("equivalent", "different", "inconclusive")}
