"""The margins of equivalence: the largest difference from a paper's number that does not matter, by kind of metric.

They were set on 2026-11-23, before any record had three seeds at paper budget. A table may narrow them (`margins`).
"""

from dataclasses import dataclass

from highway.config.metrics import METRICS


@dataclass(frozen=True)
class Margin:
    size: float  # in the unit of the metric; for a perplexity, a share of it
    reason: str


MARGINS = {
    "ppl": Margin(0.02, "2 %: 0.02 nats a word, less than any gain that the four papers call one"),
    "bpc": Margin(0.01, "small models on Penn Treebank differ by as much from seed to seed"),
    "loss": Margin(0.02, "2 % of a perplexity"),
    "nll": Margin(0.05, "2 % of the lowest number of the table of music"),
    "accuracy": Margin(0.005, "half a percentage point"),
    "bleu": Margin(0.5, "half a point, the least that papers on translation call a gain"),
}


def general_margin(metric: str) -> float | None:
    """Return the margin of a metric; None for times, sparsity and others whose numbers are not compared."""
    margin = MARGINS.get(METRICS[metric].kind)
    return None if margin is None else margin.size
