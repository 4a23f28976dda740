"""The numbers of the papers at one glance: each beside ours at `paper` budget, and how many agree.

A number counts if `reproduction.counted` has it. Numbers that a paper copied from another one are shown, not counted.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from highway.report.claims import on_log_scale
from highway.report.comparison import BORROWED
from highway.report.report import Report
from highway.report.reproduction import against_paper, compared_metrics, counted, margin
from highway.report.sections import COPIED, Grid, GridCell, Head, Judgement, Paragraph, Section, grid
from highway.report.verdicts import ENOUGH_SEEDS, ONE_SEED, Records
from highway.sweep.table import Column, Row, Table

ANSWERED = ("equivalent", "different", "inconclusive")
FEW, NOT_RUN = f"fewer than {ENOUGH_SEEDS} seeds", "not run"
WORDS = (*ANSWERED, FEW, NOT_RUN)
ORDERINGS = ("same ordering", "other ordering")
LIMITS = (0.05, 0.1, 0.2, 0.5, 1.0)  # half lengths of the axis of relative differences
EQUIVALENT = "Equivalent: the 90 % interval of our mean lies within the margin of the paper's number."
MEANING = "What the words mean: docs/STATISTICS.md."


@dataclass(frozen=True)
class Measurement:
    """A number of a paper, and the mean of our runs. Relative numbers are shares of the paper's number."""

    table: Table
    row: Row
    column: Column
    word: str  # one of WORDS
    seeds: int = 0  # runs that finished and have learned
    ours: float | None = None
    half: float | None = None  # half the length of the 90 % interval of our mean; None without a spread

    @property
    def counts(self) -> bool:
        return not self.row.copied

    @property
    def paper(self) -> float:
        return self.row.paper[self.column.metric]

    @property
    def difference(self) -> float:
        """Our mean relative to the paper's number."""
        return 0.0 if self.ours is None else self.ours / self.paper - 1

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 90 % interval of our mean, relative to the paper's number."""
        if self.half is None or self.ours is None:
            return None
        if on_log_scale(self.column.metric):
            return self.ours * np.exp(-self.half) / self.paper - 1, self.ours * np.exp(self.half) / self.paper - 1
        return (self.ours - self.half) / self.paper - 1, (self.ours + self.half) / self.paper - 1

    @property
    def margin(self) -> float:
        """The difference up to which two numbers are equivalent, relative to the paper's number."""
        size = margin(self.table, self.column.metric) or 0.0
        return size if on_log_scale(self.column.metric) else size / self.paper


@dataclass(frozen=True)
class Overview:
    """The measurements of all papers beside ours, and the verdicts on orderings at `mini` budget."""

    measurements: tuple[Measurement, ...]
    orderings: Counter[str]  # of the claims at `mini` budget, by verdict without its scope

    @property
    def counted(self) -> list[Measurement]:
        return [each for each in self.measurements if each.counts]

    @property
    def by_table(self) -> list[list[Measurement]]:
        """The measurements of each table; tables with runs come first."""
        tables = {each.table.id: each.table for each in self.measurements}
        groups = [[each for each in self.measurements if each.table.id == name] for name in tables]
        return sorted(groups, key=lambda group: all(each.word == NOT_RUN for each in group))

    @property
    def run(self) -> list[Measurement]:
        """The counted measurements that have a run."""
        return [each for each in self.counted if each.word != NOT_RUN]

    @property
    def words(self) -> dict[str, int]:
        """The number of counted measurements with each word."""
        count = Counter(each.word for each in self.counted)
        return {word: count[word] for word in WORDS}

    @property
    def sentences(self) -> list[str]:
        """The sentences that begin the overview, on the site as on the terminal."""
        words = self.words
        text = f"{len(self.run)} of the papers' {len(self.counted)} numbers have runs at the paper's own size"
        return [
            *([] if words["equivalent"] + words["different"] else ["Too early to say."]),
            f"{text} (paper budget){f': {self.seeds}' if self.run else ''}.",
            *([f"Our means differ from the papers' by {self.range}."] if self.range else []),
            f"{words['equivalent']} came out equivalent, {words['different']} different, "
            f"{words['inconclusive']} inconclusive; an answer takes at least {ENOUGH_SEEDS} seeds.",
        ]

    @property
    def section(self) -> Section:
        """The sentences, and for each table the numbers that were run, ours with its interval."""
        grids = [
            (Paragraph.of(f"{run[0].table.paper}: {run[0].table.caption}"), _grid(run))
            for group in self.by_table
            if (run := [each for each in group if each.word != NOT_RUN])
        ]
        remarks = (EQUIVALENT, *([BORROWED] if self.borrowed else []), MEANING)
        note = [Paragraph.of(*remarks, style="note")] if grids else []
        lead = Paragraph.of(*self.sentences, style="strong")
        blocks = (lead, *(block for pair in grids for block in pair), *note)
        return Section("overview", "Which numbers of the papers are reproduced?", blocks)

    @property
    def seeds(self) -> str:
        """The numbers of seeds of the measurements that were run: `1 with 3 seeds, 1 with 2 seeds`."""
        count = sorted(Counter(each.seeds for each in self.run).items(), reverse=True)
        return ", ".join(f"{number} with {seeds} seed{'' if seeds == 1 else 's'}" for seeds, number in count)

    @property
    def range(self) -> str:
        """The range of our means relative to the papers': `+3.9 % to +55.9 % (lower is better)`, "" without a mean."""
        found = sorted((each.difference, each.column.better) for each in self.run if each.ours is not None)
        ends = dict.fromkeys(f"{100 * end:+.1f} %" for end, _ in (found[0], found[-1])) if found else ()
        better = {side for _, side in found}
        return " to ".join(ends) + (f" ({better.pop()} is better)" if len(better) == 1 else "")

    @property
    def borrowed(self) -> bool:
        """True if a measurement of one seed has an interval."""
        return any(each.seeds == 1 and each.half is not None for each in self.measurements)

    @property
    def limit(self) -> float:
        """Half the length of the axis: the shortest that shows every mean."""
        largest = max((abs(each.difference) for each in self.measurements), default=0.0)
        return next((limit for limit in LIMITS if largest <= limit), LIMITS[-1])

    @property
    def ordered(self) -> dict[str, int]:
        """The claims at `mini` budget: same ordering, other ordering, and neither."""
        decided = {word: self.orderings[word] for word in ORDERINGS}
        return decided | {"neither": self.orderings.total() - sum(decided.values()) - self.orderings[NOT_RUN]}

    @property
    def single(self) -> int:
        """The number of claims at `mini` budget that rest on one seed, which shows no ordering."""
        return self.orderings[ONE_SEED]


def _grid(measured: Sequence[Measurement]) -> Grid:
    """Return a paper's numbers beside ours, in their own units."""
    numeric = [Head(title, numeric=True) for title in ("paper", "ours", "90 % interval")]
    return grid((Head("number"), *numeric, Head("seeds"), Head("answer")), [_cells(each) for each in measured])


def _cells(each: Measurement) -> tuple[GridCell, ...]:
    text = each.column.text
    return (
        f"{each.row.label}, {each.column.title}",
        text(each.paper) + ("" if each.counts else COPIED),
        None if each.ours is None else text(each.ours),
        " … ".join(text(each.paper * (1 + end)) for end in each.interval or ()) or None,
        str(each.seeds),
        Judgement(each.word) if each.counts else "copied, not counted",
    )


def overview(tables: Iterable[Table], reports: Sequence[Report]) -> Overview:
    """Return the overview of these tables from their reports at all budgets."""
    at_paper = {report.collected.table.id: report for report in reports if report.collected.budget == "paper"}
    found = [each for table in tables if table.paper for each in measurements(table, at_paper.get(table.id))]
    verdicts = [each for report in reports if report.collected.budget == "mini" for each in report.verdicts]
    return Overview(tuple(found), Counter(verdict.word.partition(" (")[0] for verdict in verdicts))


def measurements(table: Table, report: Report | None) -> list[Measurement]:
    """Return the numbers of a table, with our runs from its report at `paper` budget; None if nothing has run."""
    known = set(counted(table))
    columns = {column.metric: column for column in table.columns}
    numbers = [
        (row, columns[metric])
        for metric in compared_metrics(table)
        for row in table.rows
        if (row.id, metric) in known or (row.copied and metric in row.paper)
    ]
    if report is None or report.comparison != "paper":
        return [Measurement(table, row, column, NOT_RUN) for row, column in numbers]
    records = Records(report.collected)
    halves = {metric: against_paper(records, metric).half[0] for metric in compared_metrics(table)}
    found = []
    for row, column in numbers:
        values = report.collected.values(row.id, column.metric)
        answer = report.answers.get((row.id, column.metric))
        word = answer.word if answer else FEW if report.collected.samples[row.id] else NOT_RUN
        half = float(halves[column.metric][records.rows.index(row.id)])
        mean = fmean(values) if values else None
        length = None if np.isnan(half) else half
        found.append(Measurement(table, row, column, word, len(values), mean, length))
    return found
