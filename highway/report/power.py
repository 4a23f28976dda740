"""How many seeds would decide each claim, at the effect that the paper prints and the spread measured so far.

The test is that of verdicts (highway/report/model.py) at the strictest of Holm's levels; all rows have the same seeds.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy import special

from highway.config.metrics import METRICS
from highway.report.claims import contrasts_of, offset_of, placed, ratios_of, strictest_level
from highway.report.collect import Collected, collect
from highway.report.model import Array, contrast_deviations, has_ranks, seeds_of_ranks
from highway.report.verdicts import ENOUGH_SEEDS, POWER, Records, size_text
from highway.sweep.table import Claim, ReportRequest

MOST_SEEDS = 1000
NO_EFFECT, NO_SPREAD = "no printed effect", "no spread measured yet"
BY_RANKS = "its rows decide it, not seeds"
FAILED = "seeds: runs failed, so ranks decide"
UNRANKED = "no number of seeds while runs fail"
NOT_DECIDABLE = f"over {MOST_SEEDS:,} seeds: not decidable"
BOUND = 0.9  # of the upper bound of the spread
SMOKE = "Smoke runs show that everything works; they give no verdict."
EXPLAINED = (
    f"Seeds of each row that would decide a claim in {POWER:.0%} of cases, if its rows differ by the paper's gap and "
    "the spread over seeds is that of the runs so far at this budget. Few runs leave that spread uncertain, so a "
    f"second number is for its upper {BOUND:.0%} bound. More seeds of every row also give the spread more degrees "
    "of freedom, so they find smaller gaps than the runs so far."
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
    failed = np.isneginf(values[0]).any(1)
    if (placed(contrasts, records.place)[:, failed] != 0).any():
        ranked = has_ranks(contrasts, offset_of(claim)).all()
        return f"at least {seeds_of_ranks(level)} {FAILED}" if ranked else UNRANKED
    measured = contrast_deviations(values, placed(contrasts, records.place), records.floor(claim.metric, log))
    if measured is None:
        return NO_SPREAD
    deviations, freedom, own = measured
    of_table = zip(records.collected.table.rows, records.place.tolist(), strict=True)
    rows = len({place for row, place in of_table if not row.extra})  # rows of the same runs count once
    largest = deviations * np.sqrt(freedom / special.chdtri(freedom, BOUND))
    seeds, most = (Trial(effects, spread, own, rows, level).seeds() for spread in (deviations, largest))
    gap = f"(the paper's gap: {size_text(claim, float(effects.min()))})"
    if seeds is None:
        return f"{NOT_DECIDABLE} {gap}"
    bound = "" if most == seeds else f", up to {_rounded(most)}" if most else f", perhaps over {MOST_SEEDS:,}"
    return f"about {_rounded(seeds)} seeds{bound}{' to refute it' if effects.min() < 0 else ''} {gap}"


def _rounded(seeds: int) -> int:
    """Return a number of seeds to two digits: it is an estimate."""
    return int(float(f"{seeds:.2g}"))


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
    say = partial(console.print, soft_wrap=True, markup=False, highlight=False)
    for table, budget, _ in requests:
        if not table.claims:
            continue
        if budget == "smoke":
            say(f"{table.id}: {SMOKE}")
            continue
        say(f"{table.id}, {budget}. {EXPLAINED}")
        for claim, needed in seeds_needed(collect(table, budget, outputs_dir)).items():
            say(f"  {claim.text}: {needed}")
