"""A forest plot: the effects that claims are about, the paper's beside ours at each budget, as an SVG."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from highway.config.metrics import METRICS
from highway.config.papers import PAPERS
from highway.report.baselines import Size
from highway.report.effects import Effect
from highway.report.render import html
from highway.report.report import Report

SHADES = {"paper": "#00395f", "medium": "#3f8fc4", "mini": "#9cc9e8"}  # of our marks, by budget
TICKS = (1, 3, 10, 30, 100)  # percent, on both sides of zero
WIDTH, LEFT, RIGHT = 520, 14, 366  # of the plot, and where its axis begins and ends; words stand to the right of it
TOP, LABEL, LINE, GAP, FOOT = 52, 18, 16, 8, 22  # heights: legend, name of an effect, a budget, space below, axis


class Gain(NamedTuple):
    """By how much a row is better than its baseline: percent of the baseline's number; of an accuracy, of its error.

    The ends of the interval are NaN if a row has one run.
    """

    value: float
    low: float
    high: float


class Mark(NamedTuple):
    """Our effect at a budget, or the reason why there is none."""

    budget: str
    gain: Gain | None
    word: str


@dataclass(frozen=True)
class Entry:
    """An effect of the plot: the paper's, and ours at each budget with runs."""

    name: str
    paper: Gain
    marks: tuple[Mark, ...]


def forest_of_tables(tables: Iterable[Sequence[Report]]) -> str:
    """Return the plot of the first claim of each table, from the reports at its budgets; empty without any."""
    papers = list(PAPERS)
    found = [(reports[0].collected.table, entry) for reports in tables for entry in entries(reports, 1)]
    found.sort(key=lambda each: papers.index(each[0].paper.rpartition(", ")[0]))
    return drawn([Entry(f"{table.id}: {entry.name}", entry.paper, entry.marks) for table, entry in found])


def forest_of_claims(reports: Sequence[Report]) -> str:
    """Return the plot of all claims of a table that are about an effect; empty without any."""
    return drawn(entries(reports))


def entries(reports: Sequence[Report], count: int | None = None) -> list[Entry]:
    """Return the effects of the first claims, or of all, from the reports at the budgets of a table."""
    papers: dict[str, Gain] = {}
    marks: dict[str, list[Mark]] = {}
    for report in reports:
        for verdict in report.verdicts[:count]:
            if effect := verdict.effect:
                base, metric = effect.base, effect.column.metric
                name = f"{effect.row.label} against {base.label} ({effect.column.title})"
                papers[name] = _gain(effect, effect.paper, base.paper[metric])
                level = report.collected.summary(base.id, metric)
                gain = _gain(effect, effect.ours, level.mean) if effect.ours and level else None
                why = verdict.word if report.collected.full_data else "other data"
                marks.setdefault(name, []).append(Mark(report.collected.budget, gain, effect.word or why))
    return [Entry(name, papers[name], _with_runs(of)) for name, of in marks.items()]


def _with_runs(marks: Sequence[Mark]) -> tuple[Mark, ...]:
    """Return the marks that have a gain; without any, the first one, which says why."""
    return tuple(mark for mark in marks if mark.gain) or tuple(marks[:1])


def _gain(effect: Effect, size: Size, level: float) -> Gain:
    """Return the size of an effect as a gain; `level` is the baseline's number."""
    card = METRICS[effect.column.metric]
    unit = 1.0 if size.is_share else 1 - level if card.kind == "accuracy" else level
    factor = 100 * (-1 if card.better == "lower" else 1) / unit
    return Gain(factor * size.value, *sorted((factor * size.low, factor * size.high)))


def drawn(found: Sequence[Entry]) -> str:
    """Return the plot as an SVG; empty without claims."""
    if not found:
        return ""
    gains = [gain for entry in found for gain in (entry.paper, *(mark.gain for mark in entry.marks)) if gain]
    ends = [0.0, *(value for gain in gains for value in gain if not math.isnan(value))]
    low, high = _root(min(ends)), _root(max(ends))

    def across(percent: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * (_root(percent) - low) / (high - low), 1)

    ticks = [tick for tick in (*(-tick for tick in reversed(TICKS)), 0, *TICKS) if low <= _root(tick) <= high]
    rows, height = [], TOP
    for entry in found:
        lines = [(mark, height + LABEL + LINE * number) for number, mark in enumerate(entry.marks)]
        rows.append((entry, height, lines))
        height += LABEL + LINE * len(lines) + GAP
    budgets = [
        budget
        for budget in SHADES
        if any(mark.gain and mark.budget == budget for entry in found for mark in entry.marks)
    ]
    return (
        html()
        .get_template("forest.svg")
        .render(
            rows=rows,
            ticks=ticks,
            across=across,
            budgets=budgets,
            shades=SHADES,
            width=WIDTH,
            right=RIGHT,
            top=TOP,
            bottom=height,
            height=height + FOOT,
            isnan=math.isnan,
        )
    )


def _root(percent: float) -> float:
    """Return the signed square root: a scale that shows effects of one percent beside effects of thirty."""
    return math.copysign(math.sqrt(abs(percent)), percent)
