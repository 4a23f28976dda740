"""How often a gate beats no gate, over all tables: the probability that a run with a gate is better than one without.

A row counts if it has a gate and its baseline none. Each pair of their runs is a win, half a win if equal, or a loss;
a failed run loses against a sound one. Rows of a table count the same, and so do tables.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from scipy import special

from highway.config.experiment import Experiment
from highway.config.metrics import METRICS
from highway.report.claims import on_log_scale
from highway.report.collect import Collected
from highway.report.model import Array
from highway.report.sections import Grid, GridCell, Head, Number, Paragraph, Section, grid
from highway.report.verdicts import Records

COVERAGE = 0.95
EXPLAINED = (
    "The probability that a run with a gate is better than a run of its baseline without one, by the metric of the "
    "table's claims. Rows of a table count the same, and so do tables. The interval is the exact binomial one for as "
    "many independent runs as the tables have seeds of each row, as if all rows of a table were one: they share a "
    "baseline, seeds and data. So it is on the safe side."
)


@dataclass(frozen=True)
class Pair:
    """A row with a gate against its baseline without one."""

    table: str
    row: str
    gate: str
    won: float  # share of the pairs of runs
    seeds: int  # of the one that has fewer


@dataclass(frozen=True)
class Improvement:
    """The probability of improvement, with an interval that covers it in 95 % of cases or more."""

    probability: float
    low: float
    high: float
    tables: int
    rows: int


def probability_of_improvement(row: Array, base: Array) -> float:
    """Return the share of the pairs of runs (n,) and (m,) in which `row` is better; half of it for equal values."""
    return float((np.greater.outer(row, base) + 0.5 * np.equal.outer(row, base)).mean())


def pairs(collected: Collected) -> list[Pair]:
    """Return the pairs of a table that have runs on the same data, of which some have learned."""
    table, metric = collected.table, collected.table.headline
    if not collected.every or not METRICS[metric].measures_quality:
        return []
    records = Records(collected)
    values = dict(zip(records.rows, records.values(metric, on_log_scale(metric))[0, records.place], strict=True))
    found = []
    for row in table.rows:
        base = table.base(row.id)
        if base is None or not {row.id, base} <= collected.overrides.keys():
            continue
        if not gate_of(collected.experiment(row.id)) or gate_of(collected.experiment(base)):
            continue
        ours, without = (values[name][~np.isnan(values[name])] for name in (row.id, base))
        learned = np.isfinite(np.concatenate([ours, without])).any()
        if len(ours) and len(without) and learned and collected.comparable(row.id, base):
            won = probability_of_improvement(ours, without)
            gate = gate_of(collected.experiment(row.id))
            found.append(Pair(table.id, row.id, gate, won, min(len(ours), len(without))))
    return found


def gate_of(described: Experiment) -> str:
    """Return the names of the gates that act in an experiment, with their activations; empty if there are none."""
    named = ((name, described.gate.activation_of(interface)) for interface, name in described.gates.items())
    return " + ".join(" ".join(filter(None, words)) for words in named)


def improvement(found: Sequence[Pair]) -> Improvement:
    """Return the probability over tables and rows, and its interval (Clopper and Pearson's; see EXPLAINED)."""
    by_table = {name: [pair for pair in found if pair.table == name] for name in {pair.table for pair in found}}
    probability = fmean(fmean(pair.won for pair in of_table) for of_table in by_table.values())
    runs = len(by_table) * min(pair.seeds for pair in found)
    low, high = binomial_interval(probability * runs, runs)
    return Improvement(probability, low, high, len(by_table), len(found))


def binomial_interval(wins: float, runs: int) -> tuple[float, float]:
    """Return Clopper and Pearson's interval."""
    tail = (1 - COVERAGE) / 2
    low, high = special.betaincinv(wins, runs - wins + 1, tail), special.betaincinv(wins + 1, runs - wins, 1 - tail)
    return (0.0 if math.isnan(low) else float(low)), (1.0 if math.isnan(high) else float(high))


def across(every: Iterable[Collected]) -> list[Section]:
    """Return a section for each budget that has pairs; smoke runs give none."""
    by_budget: dict[str, list[Pair]] = {}
    note = Paragraph.of(EXPLAINED, style="note")
    for collected in every:
        if collected.budget != "smoke":
            by_budget.setdefault(collected.budget, []).extend(pairs(collected))
    return [
        Section(f"across-{budget}", f"How often a gate beats no gate ({budget})", (note, _grid(found)))
        for budget, found in by_budget.items()
        if found
    ]


def _grid(found: Sequence[Pair]) -> Grid:
    numbers = (Head(title, numeric=True) for title in ("tables", "rows", "probability", "95 % interval"))
    rows = [_line("any gate", found)]
    rows += [_line(name, [pair for pair in found if pair.gate == name]) for name in sorted({p.gate for p in found})]
    rows += [_line(name, [pair for pair in found if pair.table == name]) for name in sorted({p.table for p in found})]
    return grid((Head("of"), *numbers), rows)


def _line(name: str, found: Sequence[Pair]) -> tuple[GridCell, ...]:
    whole = improvement(found)
    counts = (Number(whole.tables, "d"), Number(whole.rows, "d"))
    return name, *counts, Number(whole.probability, ".2f"), f"{whole.low:.2f} … {whole.high:.2f}"
