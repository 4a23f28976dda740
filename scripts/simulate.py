"""Count on simulated tables how often claims get a false verdict, and how often a true one is found.

    python scripts/simulate.py [TABLE...] [--seeds 3 5] [--count 4000]

The claims are those of conf/table/, then those of tables drawn at random; the tests are those of reports
(highway/report/statistics.py), at each look that the runs allow. A run is normal with deviation 1, independently for
each metric, and for each mean of a curve. `!`: significantly more than a case allows.
"""

import argparse
from collections.abc import Sequence

import numpy as np
from scipy import stats

from highway.config import project
from highway.config.sentences import one_sentence
from highway.errors import Refused
from highway.report.statistics import Array, decisions, judge
from highway.tables.reading import load_table, table_ids
from highway.tables.table import Claim, Epochs, Row, Table

CASES = {  # name -> what the runs are, the share of tables that may have a false verdict
    "equal": ("all rows are equal", 0.055),
    "correlated 0.1": ("all rows are equal, runs with the same seed are correlated by 0.1", 0.055),
    "correlated 0.75": ("all rows are equal, runs with the same seed are correlated by 0.75", 0.055),
    "ragged": ("all rows are equal, by turns they have 3, 5 and 7 runs, whatever --seeds says", 0.055),
    "same runs": ("all rows are equal, the last one has the runs of the first", 0.055),
    "failures": ("all rows are equal, one run in ten fails", 0.055),
    "heavy tails": ("all rows are equal, runs have Student's t distribution with three degrees of freedom", 0.055),
    "wide row": ("all rows have the same mean, one of them three times the spread", 0.06),
    "wide baseline": ("all rows have the same mean, the baselines three times the spread", 0.06),
    "mixed": ("all rows have the same mean, each has once or three times the spread", 0.06),
    "ten times": ("all rows have the same mean, each has once or ten times the spread", 0.10),
}
RAGGED = (3, 5, 7)
GAPS = (2, 4, 6)  # deviations by which a true claim is true
DRAWN = 20  # tables drawn at random


class SimulatedNumbers:
    """The numbers of many tables of random runs, as `judge` reads them."""

    def __init__(self, table: Table, case: str, seeds: int, count: int) -> None:
        self.rows = [row.id for row in table.rows if not row.extra]
        self.shares_runs = case == "same runs"
        rng = np.random.default_rng([seeds, *case.encode(), *table.id.encode()])
        shape = (count, len(self.rows), max(RAGGED) if case == "ragged" else seeds)
        self.runs: dict[tuple[str, Epochs | None], Array] = {}  # what is measured -> (B, R, S)
        for measured in dict.fromkeys((claim.metric, claim.over) for claim in table.claims):
            runs = stats.t.rvs(3, size=shape, random_state=rng) if case == "heavy tails" else rng.normal(size=shape)
            if case == "wide row":
                runs[np.arange(count), rng.integers(len(self.rows), size=count)] *= 3
            elif case == "wide baseline":
                runs[:, [row in map(table.base, self.rows) for row in self.rows]] *= 3
            elif case in ("mixed", "ten times"):
                runs *= rng.choice([1, 3 if case == "mixed" else 10], size=(*shape[:2], 1))
            elif case.startswith("correlated"):
                share = float(case.split()[1])
                runs = np.sqrt(share) * rng.normal(size=(count, 1, seeds)) + np.sqrt(1 - share) * runs
            elif case == "ragged":
                for number in range(len(self.rows)):
                    runs[:, number, RAGGED[number % len(RAGGED)] :] = np.nan
            elif case == "failures":
                runs[rng.random(shape) < 0.1] = -np.inf
            self.runs[measured] = runs

    def values(self, row: str, metric: str, log: bool, over: Epochs | None = None) -> Array:
        return self.runs[metric, over][:, self.rows.index(self.twin(row))]

    def floor(self, metric: str, log: bool) -> float:
        return 0.0

    def twin(self, row: str) -> str:
        return self.rows[0] if self.shares_runs and row == self.rows[-1] else row

    def comparable(self, *rows: str) -> bool:
        return True

    def make_true(self, claim: Claim, gap: float) -> None:
        """Shift the rows of a claim, so that each of its pairs differs by this gap."""
        contrasts = np.zeros((len(claim.pairs), len(self.rows)))
        for contrast, (row, than) in zip(contrasts, claim.pairs, strict=True):
            contrast[self.rows.index(row)], contrast[self.rows.index(than)] = 1, -1
        contrasts = np.diff(contrasts, axis=0) if claim.kind == "growing" else contrasts
        self.runs[claim.metric, claim.over] += (np.linalg.pinv(contrasts) @ np.full(len(contrasts), gap))[:, None]


def drawn(number: int) -> Table:
    """Draw a table of 2 to 12 rows with 1 to 16 claims."""
    rng = np.random.default_rng(number)
    rows = [Row(id=f"row_{count}", label="", overrides=[]) for count in range(rng.integers(2, 13))]
    claims = []
    for _ in range(rng.integers(1, 17)):
        names = rng.permutation([row.id for row in rows]).tolist()
        about = {"text": "", "metric": str(rng.choice(["valid_loss", "test_loss"]))}
        half = int(rng.integers(1, len(rows) // 2 + 1))
        first = int(rng.integers(1, min(len(rows), 5)))
        pairs, product = (
            (names[:half], names[half : 2 * half]),
            (names[:first], names[first : first + rng.integers(1, 5)]),
        )
        kind = rng.choice(["better", "at_most", "paired", "growing"] if half > 1 else ["better", "at_most", "paired"])
        ours, theirs = pairs if kind in ("paired", "growing") else product
        named = {"better": ours, "paired": True} if kind == "paired" else {kind: ours}
        claims.append(Claim(than=theirs, **named, **about))
    changes = {"id": f"drawn {number}", "rows": rows, "claims": claims, "against": {}}
    return load_table("highway_t1").model_copy(update=changes)


def testable(table: Table) -> list[Claim]:
    """Return the claims, each at the edge of what it allows."""
    return [claim.model_copy(update={"share": 0.0}) for claim in table.claims]


def false_verdicts(table: Table, case: str, seeds: int, count: int) -> int:
    """Count the tables of equal rows in which a claim has a verdict: each one is false."""
    p_values = judge(testable(table), SimulatedNumbers(table, case, seeds, count))
    return int(decisions(p_values).any(0).sum())


def power(table: Table, gap: float, seeds: int, count: int) -> float:
    """Return the share of true claims that are supported; one claim of a table is true, by this gap."""
    claims, shares = testable(table), []
    for number, claim in enumerate(claims):
        numbers = SimulatedNumbers(table, "equal", seeds, count)
        numbers.make_true(claim, gap)
        shares.append(float((decisions(judge(claims, numbers))[number] == 1).mean()))
    return float(np.mean(shares))


def is_too_often(false: int, count: int, case: str) -> bool:
    """Return whether so many tables are significantly more than the case allows."""
    return bool(stats.binomtest(false, count, CASES[case][1], alternative="greater").pvalue < 0.01)


def show(tables: dict[str, list[Table]], seeds: Sequence[int], count: int) -> None:
    """Print a line for each name: the rates over its tables, which share `count`."""
    print(f"Share of {count:,} tables with a false verdict; then the share of true claims supported, by their gap.\n")
    print(*(f"- {case}: {text} (at most {most:.1%})" for case, (text, most) in CASES.items()), sep="\n", end="\n\n")
    heads = ["claims", "seeds", *CASES, *(f"{gap} deviations" for gap in GAPS)]
    print(f"| {' | '.join(heads)} |\n| --- |{' ---: |' * (len(heads) - 1)}")
    for name, group in tables.items():
        each = count // len(group)
        for number in seeds:
            cells = []
            for case in CASES:
                false = sum(false_verdicts(table, case, number, each) for table in group)
                total = each * len(group)
                error = np.sqrt(false / total * (1 - false / total) / total)
                cells.append(f"{false / total:.1%} ± {error:.1%}{'!' if is_too_often(false, total, case) else ''}")
            cells += [
                f"{np.mean([power(table, gap, number, max(each // 10, 1)) for table in group]):.0%}" for gap in GAPS
            ]
            print(f"| {name} | {number} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="default: every table, then tables drawn at random")
    parser.add_argument("--seeds", nargs="+", type=int, default=[3, 5], metavar="N", help="runs a row; default: 3 5")
    parser.add_argument("--count", type=int, default=4000, metavar="N", help="tables of each case; default: 4000")
    arguments = parser.parse_args()
    with one_sentence():
        if arguments.count < DRAWN:
            raise Refused(f"--count {arguments.count}: write {DRAWN} or more.")
        project.load()
        groups = {name: [load_table(name)] for name in arguments.tables or table_ids()}
        random = {} if arguments.tables else {f"{DRAWN} drawn": [drawn(number) for number in range(DRAWN)]}
        show(groups | random, arguments.seeds, arguments.count)


if __name__ == "__main__":
    main()
