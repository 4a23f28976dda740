"""The verdict on each claim of a table, from its records. docs/STATISTICS.md defines the words."""

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from highway.config.metrics import METRICS
from highway.report.claims import ClaimTest, decide, judge_claims, pairs_of, ratios_of, strictest_level
from highway.report.collect import Collected
from highway.report.convergence import first_reached
from highway.report.counting import examples, is_sound
from highway.report.model import Array
from highway.report.sample import Sample
from highway.sweep.table import Claim

ENOUGH_SEEDS = 3
POWER = 0.8  # of the gap that a report says would have been found
NOISE, NO_ORDER, ONE_SEED, UNLEARNED = (
    "no difference beyond noise",
    "no order beyond chance",
    "one seed",
    "has not learned",
)
AGREE = ("supported", "same ordering", "equivalent")
DISAGREE = ("refuted", "other ordering", "different")


def tone(word: str) -> str:
    """Return what a verdict or an answer says of the paper: for, against or open."""
    if word.startswith(DISAGREE):
        return "against"
    return "for" if word.startswith(AGREE) else "open"


@dataclass(frozen=True)
class Verdict:
    claim: Claim
    word: str  # supported, refuted, ..., or the reason why neither
    detail: str = ""


class Records:
    """The numbers of a table's records, as `judge_claims` reads them. The rows share one axis of seeds."""

    def __init__(self, collected: Collected) -> None:
        self.collected = collected
        self.rows = tuple(row.id for row in collected.table.rows)
        self.seeds = sorted({sample.seed for sample in collected.every})
        first: dict[object, int] = {}
        runs = [
            frozenset((run.directory, run.result.get("row")) for run in collected.samples[row]) for row in self.rows
        ]
        self.place = np.array([first.setdefault(of_row or number, number) for number, of_row in enumerate(runs)])

    def values(self, metric: str, log: bool) -> Array:
        values = np.full((1, len(self.rows), len(self.seeds)), np.nan)
        for number in set(self.place.tolist()):
            for sample in self.collected.samples[self.rows[number]]:
                values[0, number, self.seeds.index(sample.seed)] = self._value(sample, metric, log)
        return values

    def _value(self, sample: Sample, metric: str, log: bool) -> float:
        """Return a value on the scale of the model; -inf if the run failed, NaN if it does not count."""
        card = METRICS[metric]
        if card.measures_quality and not is_sound(sample, self.collected.table.select):
            return -np.inf
        if not sample.finished or not sample.counts_for(metric):
            return np.nan
        value = sample.value(metric, self.collected.table.select)
        scaled = np.log(value) if log else value
        return float(-scaled if card.better == "lower" else scaled)

    def floor(self, metric: str, log: bool) -> float:
        """Return half of what the metric resolves: a unit of its last digit, or one example of the test set."""
        card = METRICS[metric]
        resolution = 10.0**-card.digits
        if card.kind == "accuracy":
            sizes = [examples(sample, card.split) for sample in self.collected.every]
            resolution = 1 / max(filter(None, sizes), default=1 / resolution)
        values = [
            abs(sample.value(metric, self.collected.table.select))
            for sample in self.collected.every
            if sample.finished and sample.counts_for(metric)
        ]
        return resolution / 2 / float(np.median(values)) if log and values else resolution / 2

    def reached(self, row: str, than: str, metric: str) -> Array:
        """Return less the steps at which each run reaches the final value of the run of `than` with its seed."""
        card, select = METRICS[metric], self.collected.table.select
        values = np.full((1, 2, len(self.seeds)), np.nan)
        samples = [{sample.seed: sample for sample in self.collected.samples[name]} for name in (row, than)]
        for number, seed in enumerate(self.seeds):
            if not all(seed in of_row for of_row in samples):
                continue
            pair = [of_row[seed] for of_row in samples]
            if any(sample.finished and not sample.curve(card) for sample in pair):
                continue
            sound = [is_sound(sample, select) for sample in pair]
            final = pair[1].curve(card)[-1].value if sound[1] else None
            for side in (0, 1):
                steps = None
                if sound[side]:
                    steps = 0.0 if final is None else first_reached(pair[side].curve(card), final, card)
                values[0, side, number] = -np.inf if steps is None else -steps
        return values

    def step_floor(self, metric: str) -> float:
        """Return half of the longest interval between two validations."""
        card = METRICS[metric]
        curves = [sample.curves.get((card.split or "", card.kind), []) for sample in self.collected.every]
        intervals = [second.step - first.step for curve in curves for first, second in itertools.pairwise(curve)]
        return max(intervals, default=0.0) / 2


def judge(collected: Collected) -> list[Verdict]:
    """Return the verdict on every claim of the table; smoke runs give none."""
    claims = collected.table.claims
    if not claims or collected.budget == "smoke":
        return []
    records = Records(collected)
    if not records.seeds:
        return [Verdict(claim, "not run") for claim in claims]
    tests, supported, refuted = judge_claims(claims, records)
    decisions = decide(supported, refuted)[0]
    verdicts = []
    for number, claim in enumerate(claims):
        judged = Judged(claim, records, tests[number], float(supported[0, number]), float(refuted[0, number]))
        verdicts.append(judged.verdict(int(decisions[number])))
    return verdicts


@dataclass(frozen=True)
class Judged:
    """A claim with its test; the p-values are corrected for all claims of the table's file."""

    claim: Claim
    records: Records
    test: ClaimTest
    supported: float
    refuted: float

    @property
    def collected(self) -> Collected:
        return self.records.collected

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.claim.rows, *self.claim.than)))

    def runs(self, row: str) -> list[Sample]:
        """Return the runs of a row that have values for the claim, and those that have failed at it."""
        return [
            sample
            for sample in self.collected.samples[row]
            if all(sample.counts_for(metric) or _diverged_at(sample, metric) for metric in self.metrics)
        ]

    @property
    def metrics(self) -> list[str]:
        return [metric for metric in (self.claim.metric, self.claim.to) if metric]

    def verdict(self, decision: int) -> Verdict:
        if not all(map(self.runs, self.names)):
            ran = all(self.collected.samples[name] for name in self.names)
            without = ", ".join(name for name in self.names if not self.runs(name))
            why = f"no run of {without} has {' and '.join(self.metrics)}"
            if any(METRICS[metric].is_disturbed for metric in self.metrics):
                why += " that count; times count only where nothing else ran"
            return Verdict(self.claim, "not run", why if ran else "")
        if not self.collected.comparable(*self.names):
            return Verdict(self.claim, "not comparable", "the rows differ in their data or vocabulary")
        full = self.collected.budget == "paper" and self.collected.full_data
        if full and self.seeds >= ENOUGH_SEEDS:
            words = {1: "supported", -1: "refuted", 0: "undecided"}
        elif self.test.pairs is None:
            words = {1: "same ordering", -1: "other ordering", 0: NO_ORDER}
        elif np.isnan(self.test.pairs.error).all() and not self.failed:
            words = dict.fromkeys((-1, 0, 1), ONE_SEED)
        else:
            words = {1: "same ordering", -1: "other ordering", 0: "undecided" if self.failed else NOISE}
        if self.says_nothing:
            words[0] = UNLEARNED
        scope = self.collected.budget + ("" if self.collected.full_data else f", {self.collected.data_source} data")
        word = words[decision] if full else f"{words[decision]} ({scope})"
        return Verdict(self.claim, word, self.detail(decision))

    @property
    def seeds(self) -> int:
        """The number of seeds of the row that has the fewest; for a claim on steps, of those that a pair shares."""
        if self.claim.kind != "sooner":
            return min(len(self.runs(name)) for name in self.names)
        steps = [self.records.reached(row, than, self.claim.metric)[0, 0] for row, than in pairs_of(self.claim)]
        return min(int((~np.isnan(of_pair)).sum()) for of_pair in steps)

    @cached_property
    def counts(self) -> dict[str, tuple[int, int]]:
        """The number of a row's runs that have a value, and of all, by row."""
        select = self.collected.table.select
        of_quality = self.claim.kind == "sooner" or METRICS[self.claim.metric].measures_quality
        counts = {
            name: (sum(not of_quality or is_sound(sample, select) for sample in self.runs(name)), len(self.runs(name)))
            for name in self.names
        }
        if self.claim.kind == "sooner":
            for row, than in pairs_of(self.claim):
                steps = self.records.reached(row, than, self.claim.metric)[0, 0]
                counts[row] = min(counts[row], (int(np.isfinite(steps).sum()), int((~np.isnan(steps)).sum())))
        return counts

    @property
    def failed(self) -> list[str]:
        """The rows that have runs without a value."""
        return [name for name, (sound, runs) in self.counts.items() if sound < runs]

    @property
    def says_nothing(self) -> bool:
        """True if the claim compares two rows of which no run has learned."""
        return any(not self.counts[name][0] and not self.counts[other][0] for name, other in pairs_of(self.claim))

    def detail(self, decision: int) -> str:
        """Return the evidence: the least favourable pair, the p-values, and the gap that would have been found."""
        if self.test.pairs is None:
            return self._order()
        if self.failed:
            listed = (f"{name} {sound} of {runs}" for name, (sound, runs) in self.counts.items())
            event = "reach the final value" if self.claim.kind == "sooner" else "have learned"
            return f"{self.claim.metric}, runs that {event}: {', '.join(listed)}"
        tests = self.test.pairs
        least = int(np.argmax(np.where(np.isnan(tests.advantage[0]), -1, tests.above[0])))
        if np.isnan(tests.advantage[0, least]):
            pairs = {name for pair in pairs_of(self.claim) for name in pair}
            on_test_set = self.claim.kind != "sooner" and METRICS[self.claim.metric].measures_quality
            kept = not on_test_set or all(  # the test set says nothing of steps and times
                sample.has_test_units for name in pairs for sample in self.collected.finished(name)
            )
            return f"{self.claim.metric}: no spread over seeds{'' if kept else ', and no test-set interval'}"
        count = tests.above.shape[1]
        name = f"least of {count} advantages, {self._pair(least)}: " if count > 1 else "advantage "
        evidence = f"{self.claim.metric}, {name}{size_text(self.claim, tests.advantage[0, least])}"
        evidence += f"; p {p_text(self.supported)} for the claim, {p_text(self.refuted)} against it"
        if decision:
            return evidence
        strictest = strictest_level(self.collected.table.claims)
        freedom = tests.freedom[0, least]
        factor = special.stdtrit(freedom, 1 - strictest) + special.stdtrit(freedom, POWER)
        gap = size_text(self.claim, factor * tests.error[0, least])
        degrees = f"{freedom:.3g} degree{'' if freedom == 1 else 's'} of freedom"
        return f"{evidence}; these runs, whose spread has {degrees}, find a gap of {gap} in {POWER:.0%}"

    def _pair(self, number: int) -> str:
        """Name a pair of rows, or a step of a growth."""
        pairs = pairs_of(self.claim)
        if self.claim.kind == "growing":
            return f"from {pairs[number][0]} to {pairs[number + 1][0]}"
        return f"{pairs[number][0]} over {pairs[number][1]}"

    def _order(self) -> str:
        return (
            f"{self.claim.metric} and {self.claim.to}, Kendall's tau over means of {len(self.claim.rows)} rows; "
            f"p {p_text(self.supported)} for the claim, {p_text(self.refuted)} against it"
        )


def _diverged_at(sample: Sample, metric: str) -> bool:
    """Return whether a run has no value of a metric of quality because it diverged."""
    return METRICS[metric].measures_quality and not sample.finished


def size_text(claim: Claim, advantage: float) -> str:
    """Return an advantage on the scale of the model in the unit of a claim."""
    if claim.kind == "sooner":
        return f"{advantage:+,.0f} steps"
    if ratios_of(claim):
        return f"{np.expm1(advantage):+.1%}"
    return f"{advantage:+.4g}"


def p_text(value: float) -> str:
    return "below 0.001" if value < 0.001 else f"{value:.3f}"
