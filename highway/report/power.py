"""How many seeds would decide each claim, at the effect that the paper prints and the spread measured so far.

The test is that of verdicts (highway/report/model.py) at the strictest of Holm's levels; all rows have the same seeds.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from highway.config.metrics import METRICS
from highway.report.claims import contrasts_of, offset_of, ratios_of, strictest_level
from highway.report.collect import Collected, collect
from highway.report.model import Array, contrast_deviations
from highway.report.verdicts import ENOUGH_SEEDS, POWER, Records
from highway.sweep.table import Claim, ReportRequest

MOST_SEEDS = 1000
NO_EFFECT, NO_SPREAD = "no printed effect", "no spread measured yet"
BY_RANKS = "its rows decide it, not seeds"
NOT_DECIDABLE = f"over {MOST_SEEDS:,} seeds: not decidable"
SMOKE = "Smoke runs show that everything works; they give no verdict."
EXPLAINED = (
    f"Seeds of each row that would decide a claim in {POWER:.0%} of cases, at the effect that the paper prints and the "
    "spread measured so far at this budget."
)


@dataclass(frozen=True)
class Trial:
    """The test of a claim with more seeds. K: its contrasts."""

    effects: Array  # (K,) on the scale of the model: positive where the claim is true
    deviations: Array  # (K,) of one seed
    own: NDArray[np.bool_]  # (K,) True where the contrast is judged by its own rows
    rows: int  # of the table, which share their seeds
    level: float

    def power(self, seeds: int) -> float:
        """Return the probability of a verdict: for the claim (Boole's bound over its contrasts), or against it."""
        from scipy import stats  # takes half a second to import

        freedom = np.where(self.own, 1, self.rows - 1) * (seeds - 1)
        distance = self.effects / self.deviations * np.sqrt(seeds)
        missed = stats.nct.cdf(stats.t.isf(self.level, freedom), freedom, distance)
        refuted = stats.nct.sf(stats.t.isf(self.level / len(distance), freedom), freedom, -distance)
        return max(1 - float(missed.sum()), float(refuted.max()))

    def seeds(self) -> int | None:
        """Return the least number of seeds with enough power; None if it is over MOST_SEEDS."""
        counts = range(ENOUGH_SEEDS, MOST_SEEDS + 1)
        place = bisect_left(counts, POWER, key=self.power)
        return counts[place] if place < len(counts) else None


def seeds_needed(collected: Collected) -> dict[Claim, str]:
    """Return for each claim how many seeds would decide it, or why that cannot be said."""
    claims = collected.table.claims
    records = Records(collected)
    return {claim: _needed(claim, records, strictest_level(claims)) for claim in claims}


def _needed(claim: Claim, records: Records, level: float) -> str:
    if claim.to:
        return BY_RANKS
    contrasts = contrasts_of(claim, records.rows)
    effects = printed_effects(claim, records, contrasts)
    if effects is None:
        return NO_EFFECT
    log = ratios_of(claim)
    values = records.values(claim.metric, log)
    measured = contrast_deviations(values, contrasts, records.floor(claim.metric, log)) if records.seeds else None
    if measured is None:
        return NO_SPREAD
    table = records.collected.table
    rows = sum(not row.extra for row in table.rows)
    seeds = Trial(effects, *measured, rows, level).seeds()
    if seeds is None:
        return NOT_DECIDABLE
    return f"about {seeds} seeds" + (" (against it, as the paper's numbers are)" if effects.min() < 0 else "")


def printed_effects(claim: Claim, records: Records, contrasts: Array) -> Array | None:
    """Return the contrasts (K,) of the paper's numbers on the scale of the model; None if it prints none."""
    rows = records.collected.table.rows
    paper = np.array([row.paper.get(claim.metric, np.nan) for row in rows])
    if claim.kind == "sooner" or np.isnan(paper[(contrasts != 0).any(0)]).any():
        return None
    scaled = np.log(paper) if ratios_of(claim) else paper
    sign = -1.0 if METRICS[claim.metric].better == "lower" else 1.0
    return contrasts @ np.nan_to_num(sign * scaled) + offset_of(claim)


def foresee(requests: Sequence[ReportRequest], outputs_dir: Path, console: Console) -> None:
    """Print how many seeds would decide each claim of these tables."""
    for table, budget, _ in requests:
        if not table.claims:
            continue
        if budget == "smoke":
            console.print(f"{table.id}: {SMOKE}", soft_wrap=True, markup=False, highlight=False)
            continue
        console.print(f"{table.id}, {budget}. {EXPLAINED}", soft_wrap=True, markup=False, highlight=False)
        for claim, needed in seeds_needed(collect(table, budget, outputs_dir)).items():
            console.print(f"  {needed}: {claim.text}", soft_wrap=True, markup=False, highlight=False)
