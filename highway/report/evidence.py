"""Put into words what statistics.py infers from a table's records. docs/STATISTICS.md defines the words."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from highway.config.metrics import METRICS
from highway.errors import listing
from highway.report.collect import Collected
from highway.report.numbers import Numbers
from highway.report.statistics import (
    ENOUGH_SEEDS,
    Array,
    ClaimTest,
    judge,
    kendall_tau,
    on_log_scale,
    seeds_for_ranks,
)
from highway.sweep.table import Claim

NOT_RUN, NO_NUMBER, ONE_SEED, NO_SEED = "not run", "no number that counts", "one seed", "no shared seed"
NOT_DECIDED = "not decided"
AGREE = ("supported", "same ordering", "better", "within")
DISAGREE = ("refuted", "other ordering", "worse", "outside")


def tone(word: str) -> str:
    """Return what a verdict says of the paper: for, against or open."""
    if word.startswith(DISAGREE):
        return "against"
    return "for" if word.startswith(AGREE) else "open"


def p_text(value: float) -> str:
    return "below 0.001" if value < 0.001 else f"{value:.3f}"


@dataclass(frozen=True)
class Verdict:
    claim: Claim
    word: str  # supported, refuted, ..., or the reason why neither
    detail: str = ""
    rank_seeds: int = 0  # with failed runs and no decision: the runs of each row from which ranks decide


def verdicts(collected: Collected) -> list[Verdict]:
    """Return the verdict on every claim of the table; smoke runs of a paper's give none."""
    if collected.only_works:
        return []
    evidence = Evidence(collected)
    tests = iter(judge(evidence.tested, evidence.numbers))
    return [evidence.verdict(claim, None if claim.to else next(tests)) for claim in evidence.claims]


def claims_of(collected: Collected) -> list[Claim]:
    """Return the claims of a table; without any, and of rows with overrides, that each row beats its baseline."""
    table = collected.table
    if not collected.has_overrides and (table.claims or table.paper):
        return table.claims
    rows = [row for row in table.rows if row.added or not collected.has_overrides]
    pairs = [(row.id, base) for row in rows if (base := table.base(row.id))]
    return [Claim(text=row, better=[row], than=[base], metric=table.headline) for row, base in pairs]


class Evidence:
    """The records of a table, and what they say about claims and about rows beside their baselines."""

    def __init__(self, collected: Collected) -> None:
        self.collected, self.table = collected, collected.table
        self.numbers = Numbers(collected)
        self.claims = claims_of(collected)
        self.tested = [claim for claim in self.claims if not claim.to]
        self.rank_seeds = seeds_for_ranks(self.tested)

    def verdict(self, claim: Claim, test: ClaimTest | None) -> Verdict:
        """Return the verdict on a claim from its test; None for a claim on two orders of the rows."""
        names = (*claim.rows, *claim.than)
        for metric in filter(None, (claim.metric, claim.to)):
            if not all(self._has_numbers(name, metric) for name in names):
                ran = all(map(self.collected.has_ended, names))
                return Verdict(claim, NO_NUMBER if ran else NOT_RUN)
        if not self.collected.comparable(*names):
            return Verdict(claim, "not comparable", "the rows differ in their data or vocabulary")
        if test is None:
            return Verdict(claim, NOT_DECIDED, self._order(claim))
        unlearned = [self.table.row(name).label for name in claim.than if not self.collected.learned(name)]
        if claim.kind == "sooner" and unlearned:
            return Verdict(claim, self._word(0, 0), f"no run has learned of {', '.join(unlearned)}")
        decision, number = int(test.decision[0]), int(test.decisive[0])
        failed = self._failed(claim)
        if not failed and test.pairs[number].seeds[0] < 2:
            shared = ONE_SEED if test.pairs[number].seeds[0] else NO_SEED
            return Verdict(claim, shared)
        seeds = min(int(pair.seeds[0]) for pair in ([test.pairs[number]] if decision < 0 else test.pairs))
        waits = bool(failed) and not decision and claim.kind != "growing"
        detail = self._detail(claim, test, failed)
        return Verdict(claim, self._word(decision, seeds), detail, self.rank_seeds if waits else 0)

    def _detail(self, claim: Claim, test: ClaimTest, failed: str) -> str:
        """Return the pair that decides a claim and its p-value, corrected for all claims; or the runs that failed."""
        number = int(test.decisive[0])
        decisive = test.pairs[number]
        by_ranks = bool(np.isnan(decisive.mean[0]))
        if not failed or (test.decision[0] and not by_ranks):
            return f"{self._pair(claim, test, number)}, p {p_text(float(test.p[0]))}"
        if by_ranks and decisive.seeds[0] >= self.rank_seeds and claim.kind != "growing":
            return f"{failed}; by ranks, p {p_text(float(test.p[0]))}"
        return failed

    def _word(self, decision: int, seeds: int) -> str:
        full = self.collected.budget == "paper" and self.collected.full_data
        if self.collected.of_ones_own:
            return {1: "better", -1: "worse", 0: "undecided"}[decision]
        if full and seeds >= ENOUGH_SEEDS:
            words = {1: "supported", -1: "refuted", 0: "undecided"}
        else:
            words = {1: "same ordering", -1: "other ordering", 0: "undecided"}
        data = "" if self.collected.full_data else f", {self.collected.data_source} data"
        return words[decision] + ("" if full else f" ({self.collected.budget}{data})")

    def _has_numbers(self, row: str, metric: str) -> bool:
        """Return whether a row has a run with a metric, or one that diverged."""
        may_diverge = METRICS[metric].measures_quality
        samples = self.collected.samples[row]
        return any(sample.counts_for(metric) or (may_diverge and not sample.finished) for sample in samples)

    def _order(self, claim: Claim) -> str:
        means = [[self.collected.summary(row, metric) for metric in (claim.metric, claim.to)] for row in claim.rows]
        both = [(first.mean, second.mean) for first, second in means if first and second]
        tau = kendall_tau(*zip(*both, strict=True)) if both else None
        text = "none, as all values are equal" if tau is None else f"{tau:+.2f}"
        return f"Kendall's tau of {claim.metric} and {claim.to} over {len(both)} rows: {text}"

    def _failed(self, claim: Claim) -> str:
        """Return how many runs of each row with failed ones have a value; empty if none failed."""
        of_rows: dict[str, Array] = {}
        for pair in claim.pairs:
            runs: Iterable[Array] = (self.numbers.values(name, claim.metric, False) for name in pair)
            if claim.kind == "sooner":
                runs = self.numbers.steps(*pair, claim.metric)
            for name, of_row in zip(pair, runs, strict=True):  # the steps of a row depend on the other one
                of_rows[name] = np.fmin(of_row, of_rows.get(name, of_row))
        event = "arrives" if claim.kind == "sooner" else "has learned"
        texts = []
        for name, runs in of_rows.items():
            if np.isneginf(runs).any():
                every, some = int((~np.isnan(runs)).sum()), int(np.isfinite(runs).sum())
                texts.append(f"{self.table.row(name).label} {event} in {some} of {every} runs")
        return listing(texts)

    def _pair(self, claim: Claim, test: ClaimTest, number: int) -> str:
        """Return the size and the interval of the pair that decides a claim."""
        (row, than), metric, compared = claim.pairs[number], METRICS[claim.metric], test.pairs[number]
        sign = -1 if claim.kind == "sooner" or metric.better == "lower" else 1
        limit = f" (limit {100 * claim.share:+.1f} %)" if claim.kind == "at_most" else ""
        if claim.kind == "growing":
            sign, (row, than) = 1, (claim.pairs[number + 1][0], row)
        elif self.table.base(than) == row and not limit:  # the direction in which the report compares them elsewhere
            sign, row, than = -sign, than, row
        mean, half = sign * (float(compared.mean[0]) - math.log1p(claim.share)), float(compared.half[0])
        ends, unit = (mean, mean - half, mean + half), ""
        if claim.kind == "sooner":
            size, low, high, unit = *(f"{end:+,.0f}" for end in ends), " steps"
        elif limit or on_log_scale(metric.name):
            size, low, high = (f"{100 * math.expm1(end):+.1f}" for end in ends)
            size += " %"
        else:
            size, low, high = (f"{end:+.{self.table.digits(metric.name)}f}" for end in ends)
        names = [self.table.row(name).label for name in (row, than)]
        named = "gain of {} against that of {}" if claim.kind == "growing" else "{} against {}"
        return f"{named.format(*names)}{limit}: {size} ({low} … {high}){unit}"
