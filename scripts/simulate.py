"""Count on simulated tables how often claims get a false verdict, and how often a true one is found.

    python scripts/simulate.py [TABLE...] [--seeds 3 5] [--count 4000]

The claims are those of conf/table/, and the tests those of reports (highway/report/statistics.py); the runs are random.
A run is normal with deviation 1, independently for each metric. `!`: significantly more than 5 % of tables.
"""

import argparse
from collections.abc import Sequence

import numpy as np
from scipy import stats

from highway.config import project
from highway.config.sentences import one_sentence
from highway.errors import Refused
from highway.report.statistics import LEVEL, Array, judge
from highway.sweep.reading import load_table, table_ids
from highway.sweep.table import Claim, Table

CASES = {
    "equal": "all rows are equal",
    "wide row": "all rows are equal, one of them has three times the spread",
    "wide baseline": "all rows are equal, the baselines have three times the spread",
    "heavy tails": "all rows are equal, runs have Student's t distribution with three degrees of freedom",
    "failures": "all rows are equal, one run in ten fails",
}
GAPS = (2, 5, 8)  # deviations by which a true claim is true
VALIDATION = 0.5  # deviations that a run gains between two validations


class SimulatedNumbers:
    """The numbers of many tables of random runs, as `judge` reads them."""

    def __init__(self, table: Table, case: str, seeds: int, count: int) -> None:
        self.rows = [row.id for row in table.rows if not row.extra]
        rng = np.random.default_rng([seeds, *case.encode(), *table.id.encode()])
        shape = (count, len(self.rows), seeds)
        self.runs: dict[str, Array] = {}  # metric -> (B, R, S)
        for metric in dict.fromkeys(claim.metric for claim in table.claims):
            runs = stats.t.rvs(3, size=shape, random_state=rng) if case == "heavy tails" else rng.normal(size=shape)
            if case == "wide row":
                runs[np.arange(count), rng.integers(len(self.rows), size=count)] *= 3
            elif case == "wide baseline":
                runs[:, [row in map(table.base, self.rows) for row in self.rows]] *= 3
            elif case == "failures":
                runs[rng.random(shape) < 0.1] = -np.inf
            self.runs[metric] = runs

    def values(self, row: str, metric: str, log: bool) -> Array:
        return self.runs[metric][:, self.rows.index(row)]

    def floor(self, metric: str, log: bool) -> float:
        return 0.0

    def steps(self, row: str, than: str, metric: str) -> tuple[Array, Array]:
        """Return the validations since runs were as good as the worst of `than` at its end; all curves rise alike."""
        ends = [self.values(name, metric, False) for name in (row, than)]
        worst = np.where(np.isfinite(ends[1]), ends[1], np.inf).min(1, keepdims=True)
        ours, theirs = (np.where(end >= worst, np.floor((end - worst) / VALIDATION), -np.inf) for end in ends)
        return ours, theirs

    def step_floor(self, metric: str) -> float:
        return 0.5

    def make_true(self, claim: Claim, gap: float) -> None:
        """Shift the rows of a claim, so that each of its pairs differs by this gap."""
        contrasts = np.zeros((len(claim.pairs), len(self.rows)))
        for contrast, (row, than) in zip(contrasts, claim.pairs, strict=True):
            contrast[self.rows.index(row)], contrast[self.rows.index(than)] = 1, -1
        contrasts = np.diff(contrasts, axis=0) if claim.kind == "growing" else contrasts
        self.runs[claim.metric] += (np.linalg.pinv(contrasts) @ np.full(len(contrasts), gap))[:, None]


def testable(table: Table) -> list[Claim]:
    """Return the claims that are tested, at the edge of what they allow."""
    return [claim.model_copy(update={"share": 0.0}) for claim in table.claims if not claim.to]


def false_verdicts(table: Table, case: str, seeds: int, count: int) -> int:
    """Count the tables of equal rows in which a claim has a verdict: each one is false."""
    tests = judge(testable(table), SimulatedNumbers(table, case, seeds, count))
    return int(np.any([test.decision != 0 for test in tests], axis=0).sum())


def power(table: Table, gap: float, seeds: int, count: int) -> float:
    """Return the share of true claims that are supported; one claim of a table is true, by this gap."""
    claims, shares = testable(table), []
    for number, claim in enumerate(claims):
        numbers = SimulatedNumbers(table, "equal", seeds, count)
        numbers.make_true(claim, gap)
        shares.append(float((judge(claims, numbers)[number].decision == 1).mean()))
    return float(np.mean(shares))


def is_too_often(false: int, count: int) -> bool:
    """Return whether so many tables are significantly more than 5 %."""
    return bool(stats.binomtest(false, count, LEVEL, alternative="greater").pvalue < 0.01)


def show(tables: Sequence[Table], seeds: Sequence[int], count: int) -> None:
    print(f"Share of {count:,} tables with a false verdict; then the share of true claims supported, by their gap.\n")
    print(*(f"- {case}: {text}" for case, text in CASES.items()), sep="\n", end="\n\n")
    heads = ["table", "seeds", *CASES, *(f"{gap} deviations" for gap in GAPS)]
    print(f"| {' | '.join(heads)} |\n| --- |{' ---: |' * (len(heads) - 1)}")
    for table in tables:
        for number in seeds:
            false = [false_verdicts(table, case, number, count) for case in CASES]
            cells = [f"{each / count:.1%}{'!' if is_too_often(each, count) else ''}" for each in false]
            cells += [f"{power(table, gap, number, count // 10):.0%}" for gap in GAPS]
            print(f"| {table.id} | {number} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="default: every table")
    parser.add_argument("--seeds", nargs="+", type=int, default=[3, 5], metavar="N", help="default: 3 5")
    parser.add_argument("--count", type=int, default=4000, metavar="N", help="tables of each case; default: 4000")
    arguments = parser.parse_args()
    with one_sentence():
        if arguments.count < 10:
            raise Refused(f"--count {arguments.count}: write 10 or more.")
        project.load()
        show([load_table(name) for name in arguments.tables or table_ids()], arguments.seeds, arguments.count)


if __name__ == "__main__":
    main()
