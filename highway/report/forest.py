"""A forest plot: the effects that claims are about, the paper's beside ours at each budget, as an SVG."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from highway.cards.metrics import METRICS
from highway.cards.papers import PAPERS, paper_name
from highway.report.collect import Collected
from highway.report.content import Report
from highway.report.effects import Effect
from highway.report.render import html
from highway.report.verdicts import NOT_RUN

SHADES = {"paper": "#00304f", "medium": "#1f6aa5", "mini": "#5596cc"}  # of our marks, by budget
OTHER = "#7f7f7f"  # of a budget of one's own
TICKS = (0.1, 0.3, 1, 3, 10, 30, 100)  # percent, on both sides of zero
LEAST = 0.03  # of the longest side of the axis: smaller ticks are left out
WIDTH, LEFT, RIGHT = 520, 14, 366  # of the plot, and where its axis begins and ends; words stand to the right of it
TOP, LABEL, LINE, GAP, FOOT = 52, 18, 16, 8, 22  # heights: legend, name of an effect, a budget, space below, axis


class Mark(NamedTuple):
    """Our effect at a budget, in percent of the baseline's number (of an accuracy: of its error); above 0 is better."""

    budget: str
    word: str
    gain: float | None = None  # None without runs to compare
    means: tuple[float, float] | None = None  # the 95 % interval; None for one run
    runs: tuple[float, float] | None = None  # the same of the difference of one more run of each row


class Entry(NamedTuple):
    """An effect of the plot: the paper's gain, and ours at each budget."""

    name: str
    paper: float
    marks: tuple[Mark, ...]


def forest_of_tables(tables: Iterable[Sequence[Report]]) -> str:
    """Return the plot of the first claim of each table, from the reports at its budgets; empty without any."""
    papers = list(PAPERS)
    effects = [(reports[0].collected.table, entry) for reports in tables for entry in entries(reports, 1)]
    effects.sort(key=lambda each: papers.index(paper_name(each[0].paper)))
    return forest_svg([entry._replace(name=f"{table.id}: {entry.name}") for table, entry in effects])


def forest_of_claims(reports: Sequence[Report]) -> str:
    """Return the plot of all claims of a table that are about an effect; empty without any."""
    return forest_svg(entries(reports))


def entries(reports: Sequence[Report], count: int | None = None) -> list[Entry]:
    """Return the effects of the first claims, or of all, from the reports at the budgets of a table."""
    effects: dict[tuple[str, str, str], Effect] = {}
    marks: dict[tuple[str, str, str], dict[str, Mark]] = {}  # by effect and budget
    for report in reports:
        for verdict in report.verdicts[:count]:
            if effect := verdict.effect:
                key = effect.row.id, effect.base.id, effect.column.metric  # two claims may be about the same effect
                effects[key] = effect
                marks.setdefault(key, {})[report.collected.budget] = _mark(report.collected, effect)
    return [_entry(effect, list(marks[key].values())) for key, effect in effects.items()]


def _entry(effect: Effect, marks: list[Mark]) -> Entry:
    """Return the effect with the marks of the budgets that have runs; without any, with the one that says so."""
    metric = effect.column.metric
    name = f"{effect.row.label} against {effect.base.label} ({effect.column.title})"
    paper = effect.paper.value * _percent(metric, effect.base.paper[metric], effect.paper.is_share)
    return Entry(name, paper, tuple(mark for mark in marks if mark.word != NOT_RUN) or tuple(marks[:1]))


def _mark(collected: Collected, effect: Effect) -> Mark:
    """Return our effect at a budget."""
    metric, level = effect.column.metric, collected.summary(effect.base.id, effect.column.metric)
    factor = _percent(metric, level.mean, effect.paper.is_share) if level else 0.0
    if not (effect.ours and effect.next and factor):
        return Mark(collected.budget, effect.word)
    gain = factor * effect.ours.value
    if math.isnan(effect.ours.low):
        return Mark(collected.budget, effect.word, gain)
    (low, high), (least, most) = (
        sorted((factor * each.low, factor * each.high)) for each in (effect.ours, effect.next)
    )
    return Mark(collected.budget, effect.word, gain, (low, high), (least, most))


def _percent(metric: str, level: float, is_share: bool) -> float:
    """Return the factor from the size of an effect to a gain; `level` is the baseline's number. 0: there is none."""
    card = METRICS[metric]
    unit = 1.0 if is_share else abs(1 - level if card.kind == "accuracy" else level)
    return 100 * (-1 if card.better == "lower" else 1) / unit if unit else 0.0


def forest_svg(effects: Sequence[Entry]) -> str:
    """Return the plot as an SVG; empty without effects."""
    if not effects:
        return ""
    marks = [mark for entry in effects for mark in entry.marks if mark.gain is not None]
    values = [0.0, *(entry.paper for entry in effects), *(mark.gain for mark in marks if mark.gain is not None)]
    values += [end for mark in marks for end in mark.runs or ()]
    low, high = min(values), max(values)
    span = (_root(high) - _root(low)) or 1.0

    def across(percent: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * (_root(percent) - _root(low)) / span, 1)

    shown = [tick for tick in TICKS if tick >= LEAST * max(high, -low)]
    ticks = [tick for tick in (*(-tick for tick in reversed(shown)), 0, *shown) if low <= tick <= high]
    rows, height = [], TOP
    for entry in effects:
        lines = [(mark, height + LABEL + LINE * number) for number, mark in enumerate(entry.marks)]
        rows.append((entry, height, lines))
        height += LABEL + LINE * len(lines) + GAP
    sizes = {"width": WIDTH, "right": RIGHT, "top": TOP, "bottom": height, "height": height + FOOT}
    budgets = dict.fromkeys(mark.budget for mark in marks)
    shades = {budget: SHADES.get(budget, OTHER) for budget in (*SHADES, *budgets) if budget in budgets}
    template = html().get_template("forest.svg")
    return template.render(rows=rows, ticks=ticks, across=across, shades=shades, not_run=NOT_RUN, **sizes)


def _root(percent: float) -> float:
    """Return the signed square root: a scale that shows effects of one percent beside effects of thirty."""
    return math.copysign(math.sqrt(abs(percent)), percent)
