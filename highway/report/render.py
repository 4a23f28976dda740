"""What is told of a table at a budget: one grid of values for terminal, Markdown, CSV, LaTeX and the site alike."""

from collections.abc import Sequence
from dataclasses import dataclass

from highway.config.metrics import METRICS, Metric
from highway.report.bootstrap import Compared, compare
from highway.report.collect import Collected, Point, Sample, authors_logs
from highway.report.statistics import (
    Answer,
    Difference,
    Summary,
    Verdict,
    answer,
    differences,
    first_reached,
    judge,
    kendall_tau,
    mean_between,
    summarise,
)
from highway.sweep.table import Column, Row

BOOTSTRAP = (
    "sacreBLEU's, over 1,000 samples of the test sentences: BLEU with its 95 % interval, and the probability of such a "
    "difference if there were none. It speaks of these sentences, not of other seeds."
)

COPIED = "†"

SPREAD = "After ± stands the standard deviation over seeds."

AGAINST_WORDS = (
    "Mean difference of {} over the seeds that both have, its 95 % interval, and the p of a paired t-test, by Holm's "
    "correction as if each row were the only one compared."
)

AGAINST = ("model", "difference", "95 % interval", "p")  # what difference_cells gives

REACHED = ("model", "ours, by seed", "authors' log", "mean distance of the curves")  # what Report.reached gives

COMPARED = ("model", "against", "seed", "BLEU", "difference", "p")  # what compared_cells gives


@dataclass(frozen=True)
class Entry:
    """One row under one column: ours over seeds, and the paper's."""

    column: Column
    ours: Summary | None
    paper: float | None
    copied: bool = False  # by the paper, from another one
    answer: Answer | None = None  # where there are seeds enough to say whether the paper's number comes back

    def ours_text(self, plus_minus: str = "±") -> str:
        if self.ours is None:
            return "—"
        text = f"{self.ours.mean:.{self.column.digits}f}"
        if self.ours.deviation is not None:
            text += f" {plus_minus} {self.ours.deviation:.{self.column.digits}f}"
        return text

    def paper_text(self) -> str:
        return "—" if self.paper is None else f"{self.paper:.{self.column.digits}f}{COPIED if self.copied else ''}"

    def difference_text(self) -> str:
        if self.ours is None or self.paper is None:
            return ""
        difference = f"{self.ours.mean - self.paper:+.{self.column.digits}f}"
        return f"{difference}, {self.answer}" if self.answer else difference


@dataclass(frozen=True)
class Line:
    row: Row
    entries: tuple[Entry, ...]
    also: tuple[Entry, ...]
    status: str  # "3 seeds", "not run", "2 seeds, 1 diverged"


@dataclass(frozen=True)
class Report:
    collected: Collected
    lines: tuple[Line, ...]
    verdicts: tuple[Verdict, ...]
    compared: tuple[Compared, ...]
    differences: dict[str, Difference]  # from the first row, by the first column; by row

    @property
    def asked(self) -> list[Entry]:
        """The paper's numbers of which it can be asked whether they come back."""
        if self.collected.budget != "paper" or not self.collected.full_data:
            return []
        return [entry for line in self.lines for entry in line.entries if entry.paper is not None]

    @property
    def answers(self) -> str | None:
        """How many of these come back."""
        if not self.asked:
            return None
        answers = [entry.answer for entry in self.asked if entry.answer]
        back, told, numbers = sum(one.comes_back for one in answers), len(answers), len(self.asked)
        if not told:
            return f"None of {numbers} numbers of the paper has three seeds yet."
        text = f"{back} of {numbers} numbers of the paper come back, {told - back} are missed"
        return f"{text}; {numbers - told} have no three seeds yet." if told < numbers else f"{text}."

    @property
    def heading(self) -> str:
        return self.collected.table.heading

    @property
    def origin(self) -> str:
        """Under which budget and on which data: on every rendering."""
        table, budget = self.collected.table, self.collected.budget
        select = {"best": "model of the best validation", "last": "last model"}[table.select]
        numbers = f"numbers of the {select}" if table.kind == "training" else "medians over rounds in turn"
        return f"Budget {budget}; {self.collected.caveat}; {numbers}."

    @property
    def reached(self) -> list[list[str]]:
        """Of each row when it first has the first row's final value, and how far its curve lies from that row's."""
        table, logs = self.collected.table, authors_logs(self.collected.table)
        if table.reaches is None:
            return []
        metric = METRICS[table.reaches]
        place = (metric.split or "", metric.kind)
        base = {one.seed: one.curve(metric) for one in self.collected.finished(table.rows[0].id)}
        found = []
        for row in table.rows:
            curves = [
                (one.curve(metric), base[one.seed]) for one in self.collected.finished(row.id) if one.seed in base
            ]
            log = logs.get(row.id, {}).get(place)
            log_of_base = logs.get(table.rows[0].id, {}).get(place)
            theirs = [(log, log_of_base)] if log and log_of_base else []
            apart = [value for pair in curves if (value := mean_between(*pair)) is not None]
            found.append(
                [
                    row.label,
                    *(", ".join(_reached(*pair, metric) for pair in pairs) or "—" for pairs in (curves, theirs)),
                    ", ".join(f"{value:+.3f}" for value in apart) or "—",
                ]
            )
        return found

    @property
    def rank_agreement(self) -> str | None:
        """How far our order of the paper's rows agrees with the paper's, in words."""
        metric = self.collected.table.ranked_by
        entries = [entry for line in self.lines for entry in line.entries if entry.column.metric == metric]
        both = [(entry.ours.mean, entry.paper) for entry in entries if entry.ours and entry.paper is not None]
        tau = kendall_tau([ours for ours, _ in both], [paper for _, paper in both])
        return (
            f"Order of {len(both)} rows by {metric} against the paper's: Kendall's tau {tau:+.2f}."
            if tau is not None
            else None
        )

    @property
    def changes(self) -> str:
        table, budget = self.collected.table, self.collected.budget
        words = table.budgets[budget]
        by_row = " Rows change more: see `explain`." if any(row.shrunk.get(budget) for row in table.rows) else ""
        changed = f"The recipe with {', '.join(f'`{word}`' for word in words)}." if words else "The recipe unchanged."
        return changed + by_row

    @property
    def copied(self) -> str | None:
        """Which of the paper's numbers are not its own."""
        sources = dict.fromkeys(row.copied for row in self.collected.table.rows if row.copied)
        return f"{COPIED} copied by the paper from {', '.join(sources)}." if sources else None


def _reached(curve: list[Point], base: list[Point], metric: Metric) -> str:
    """The step, and which share it is of those that the first row needs itself."""
    step, own = (first_reached(one, base[-1].value, metric) for one in (curve, base))
    return "never" if step is None or own is None else f"{step:,.0f} ({step / own:.0%})"


def build_report(collected: Collected) -> Report:
    lines = []
    for row in collected.table.rows:
        if (row.arm or collected.only_run) and not collected.samples[row.id]:
            continue  # arms are listed when they were run
        lines.append(_line(row, collected))
    verdicts = tuple(judge(claim, collected) for claim in collected.table.claims)
    verdicts = tuple(one for one in verdicts if not (collected.only_run and one.word == "not run"))
    against = differences(collected, collected.table.columns[0].metric)
    return Report(collected, tuple(lines), verdicts, tuple(compare(collected)), against)


def _line(row: Row, collected: Collected) -> Line:
    table = collected.table
    shown, also = (_entries(row, columns, collected) for columns in (table.columns, table.also))
    return Line(row, shown, also, _status(collected.samples[row.id]))


def _entries(row: Row, columns: Sequence[Column], collected: Collected) -> tuple[Entry, ...]:
    finished, table = collected.finished(row.id), collected.table
    entries = []
    for column in columns:
        values = [one.value(column.metric, table.select) for one in finished if one.tells(column.metric)]
        paper = row.paper.get(column.metric)
        told = None if paper is None else answer(values, paper, column.digits, collected)
        entries.append(Entry(column, summarise(values), paper, bool(row.copied), told))
    return tuple(entries)


def _status(samples: tuple[Sample, ...]) -> str:
    if not samples:
        return "not run"
    finished = [sample for sample in samples if sample.finished]
    seeds = ", ".join(str(sample.seed) for sample in finished)
    parts = [f"seed{'s' if len(finished) > 1 else ''} {seeds}"] if finished else []
    if len(finished) < len(samples):
        parts.append(f"{len(samples) - len(finished)} diverged")
    if any(sample.older_revision for sample in samples):
        parts.append("older revision")
    if any(sample.other_code for sample in samples):
        parts.append("other code")
    return ", ".join(parts)


def environments(collected: Collected) -> list[str]:
    """Every distinct place that the records come from."""
    found: dict[str, None] = {}
    for sample in collected.every:
        environment, cost = sample.result["environment"], sample.result["cost"]
        torch = environment["versions"].get("torch")
        commit = environment["git_commit"] or "unknown"
        text = f"{cost['device']}, torch {torch}, precision {environment['precision']}, commit {commit}"
        found[text] = None
    return list(found)


def difference_cells(report: Report) -> list[list[str]]:
    table, digits = report.collected.table, report.collected.table.columns[0].digits + 1
    return [
        [
            table.row(row).label,
            f"{one.mean:+.{digits}f}",
            f"{one.low:+.{digits}f} … {one.high:+.{digits}f}",
            f"{one.p:.3f}",
        ]
        for row, one in report.differences.items()
    ]


def spreads(report: Report) -> bool:
    return any(entry.ours and entry.ours.deviation is not None for line in report.lines for entry in line.entries)


def compared_cells(one: Compared) -> list[str]:
    bleu = f"{one.bleu:.2f} ± {one.half:.2f}"
    p = f"{one.p:.3f}" if one.difference else "—"  # sacreBLEU calls no difference at all a sure one
    return [one.row.label, one.base.label, str(one.seed), bleu, f"{one.difference:+.2f}", p]


def has_paper(report: Report) -> bool:
    """Whether there are numbers to compare with; a table of one's own has none."""
    return any(row.paper for row in report.collected.table.rows)
