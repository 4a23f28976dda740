"""Means over seeds, and the agreement of two orders."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    mean: float
    deviation: float | None  # over seeds (n - 1); None for one seed
    count: int


def summarise(values: Sequence[float]) -> Summary | None:
    """Return mean and standard deviation, or None without values."""
    if not values:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Summary(statistics.fmean(values), deviation, len(values))


def kendall_tau(ours: Sequence[float], papers: Sequence[float]) -> float | None:
    """Return Kendall's tau-b of two orders of the same rows (1: equal, -1: reversed); None if all values are equal."""
    if len(set(ours)) < 2 or len(set(papers)) < 2:
        return None
    from scipy import stats  # takes half a second to import

    return float(stats.kendalltau(ours, papers).statistic)


def tau_by_chance(count: int) -> float:
    """Return the bound on |tau| that 95 % of unrelated orders of `count` rows keep (normal approximation)."""
    return 1.96 * math.sqrt(2 * (2 * count + 5) / (9 * count * (count - 1)))
