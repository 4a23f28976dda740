"""A table as text: for the terminal, Markdown, CSV and LaTeX, all from one grid of values.

Nothing here depends on the day or the machine: the same records give the same bytes.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from highway.config.metrics import METRICS
from highway.report.bootstrap import Compared, compare
from highway.report.collect import Collected, Sample, authors_logs
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
    summarise,
)
from highway.sweep.table import Column, Figure, Row

BOOTSTRAP = (
    "sacreBLEU's, over 1,000 samples of the test sentences: BLEU with its 95 % interval, and the probability of such a "
    "difference if there were none. It speaks of these sentences, not of other seeds."
)

COPIED = "†"

IN_LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        **{"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}"},
        **{"<": "\\textless{}", ">": "\\textgreater{}", "—": "--", COPIED: "\\dag{}", "\n": " "},
    }
)
IN_MARKDOWN = str.maketrans({**{one: f"\\{one}" for one in "\\|*`[]"}, "<": "&lt;", ">": "&gt;", "\n": " "})

SPREAD = "After ± stands the standard deviation over seeds."

AGAINST_WORDS = (
    "Mean difference of {} over the seeds that both have, its 95 % interval, and the p of a paired t-test, by Holm's "
    "correction as if each row were the only one compared."
)

AGAINST = ("model", "difference", "95 % interval", "p")  # what difference_cells gives

COMPARED = ("model", "against", "seed", "BLEU", "difference", "p")  # what compared_cells gives

CSV_COLUMNS = (
    "table", "budget", "data", "row", "label", "arm", "metric", "select",
    "seeds", "mean", "deviation", "paper", "difference",
)  # fmt: skip


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
    def answers(self) -> str | None:
        """How many of the paper's numbers come back, where that can be said."""
        if self.collected.budget != "paper" or not self.collected.full_data or not has_paper(self):
            return None
        entries = [entry for line in self.lines for entry in line.entries if entry.paper is not None]
        back = sum(entry.answer.comes_back for entry in entries if entry.answer)
        told = sum(entry.answer is not None for entry in entries)
        if not told:
            return f"None of {len(entries)} numbers of the paper has three seeds yet."
        text = f"{back} of {len(entries)} numbers of the paper come back, {told - back} are missed"
        return f"{text}; {len(entries) - told} have no three seeds yet." if told < len(entries) else f"{text}."

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
    def reached(self) -> list[tuple[str, str, str]]:
        """Label, our steps by seed and those of the authors' log, until a row first has the first row's final value."""
        table, logs = self.collected.table, authors_logs(self.collected.table)
        if table.reaches is None:
            return []
        metric = METRICS[table.reaches]
        place = (metric.split or "", metric.kind)
        finals = {one.seed: one.curve(metric)[-1][2] for one in self.collected.finished(table.rows[0].id)}
        found = []
        for row in table.rows:
            samples = [sample for sample in self.collected.finished(row.id) if sample.seed in finals]
            ours = [first_reached(sample.curve(metric), finals[sample.seed], metric) for sample in samples]
            log = logs.get(row.id, {}).get(place)
            theirs = first_reached(log, logs[table.rows[0].id][place][-1][2], metric) if log else None
            found.append((row.label, ", ".join(map(_steps, ours)) or "—", _steps(theirs) if log else "—"))
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


def _steps(step: float | None) -> str:
    return "never" if step is None else f"{step:,.0f}"


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


def to_markdown(report: Report, figures: Sequence[Figure]) -> str:
    table = report.collected.table
    heads = ["model", "seeds"]
    for column in table.columns:
        heads += [column.title, "paper", "difference"] if has_paper(report) else [column.title]
    out = [f"# {_md(report.heading)}", "", *([report.answers, ""] if report.answers else [])]
    out += [_md(report.origin), report.changes, *([SPREAD] if spreads(report) else []), ""]
    out += [text for note in (table.note, report.copied) if note for text in (note, "")]
    for arms, title in ((False, ""), (True, "## Arms (rows that the paper lacks)")):
        lines = [line for line in report.lines if line.row.arm is arms]
        if lines:
            out += [title, ""] if title else []
            out += ["| " + " | ".join(heads) + " |", "|" + " --- |" * 2 + " ---: |" * (len(heads) - 2)]
            out += ["| " + " | ".join(_markdown_cells(line, has_paper(report))) + " |" for line in lines]
            out.append("")
    if table.also:
        out += ["## Measured as well", ""]
        out += ["| " + " | ".join(["model", *(column.title for column in table.also)]) + " |"]
        out += ["| --- |" + " ---: |" * len(table.also)]
        out += [
            f"| {' | '.join([_md(line.row.label), *(one.ours_text() for one in line.also)])} |" for line in report.lines
        ]
        out.append("")
    if report.rank_agreement:
        out += [report.rank_agreement, ""]
    out += ["## Claims", "", "| claim | verdict | detail |", "| --- | --- | --- |"] if report.verdicts else []
    out += [f"| {_md(one.claim.text)} | **{_md(one.word)}** | {_md(one.detail)} |" for one in report.verdicts]
    if report.reached:
        out += ["", f"## Steps until the final {table.reaches} of {table.rows[0].label}", ""]
        out += ["| model | ours, by seed | authors' log |", "| --- | ---: | ---: |"]
        out += [f"| {_md(label)} | {ours} | {theirs} |" for label, ours, theirs in report.reached]
    if report.differences:
        out += ["", f"## Against {table.rows[0].label}", "", AGAINST_WORDS.format(table.columns[0].title), ""]
        out += [f"| {' | '.join(AGAINST)} |", "| --- | ---: | ---: | ---: |"]
        out += [f"| {' | '.join(map(_md, cells))} |" for cells in difference_cells(report)]
    if report.compared:
        out += ["", "## Paired bootstrap", "", BOOTSTRAP, ""]
        out += [f"| {' | '.join(COMPARED)} |", "| --- | --- | ---: | ---: | ---: | ---: |"]
        out += ["| " + " | ".join(map(_md, compared_cells(one))) + " |" for one in report.compared]
    out += ["", "## Figures", ""] if figures else []
    for figure in figures:
        out += [f"![{figure.id}]({figure.id}.svg)", "", f"*{figure.caption}.*", ""]
    out += ["## Where the records come from", "", *(f"- {_md(text)}" for text in environments(report.collected)), ""]
    return "\n".join(out)


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


def _markdown_cells(line: Line, papers: bool) -> list[str]:
    cells = [_md(line.row.label), line.status]
    for entry in line.entries:
        cells += [entry.ours_text(), entry.paper_text(), entry.difference_text()] if papers else [entry.ours_text()]
    return cells


def to_csv(report: Report) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    collected = report.collected
    origin = [collected.table.id, collected.budget, collected.data_source]
    for line in report.lines:
        for entry in (*line.entries, *line.also):
            ours = entry.ours
            difference = ours.mean - entry.paper if ours and entry.paper is not None else None
            values: list[Any] = [ours.count, ours.mean, ours.deviation] if ours else [0, None, None]
            row = [line.row.id, line.row.label, line.row.arm]
            measured = [entry.column.metric, collected.table.select, *values, entry.paper, difference]
            writer.writerow([*origin, *row, *measured])
    return text.getvalue()


def to_latex(report: Report) -> str:
    table = report.collected.table
    columns = table.columns
    out = [
        *(f"% {' '.join(text.split())}" for text in (report.heading, report.origin)),
        "% needs \\usepackage{booktabs}",
        "\\begin{tabular}{l" + "rr" * len(columns) + "}",
        "\\toprule",
        " & " + " & ".join(f"\\multicolumn{{2}}{{c}}{{{_tex(column.title)}}}" for column in columns) + " \\\\",
        "model" + " & ours & paper" * len(columns) + " \\\\",
        "\\midrule",
    ]
    for line in report.lines:
        cells = [_tex(line.row.label)]
        for entry in line.entries:
            ours = entry.ours_text(plus_minus="\\pm")
            cells += [f"${ours}$" if entry.ours else "--", _tex(entry.paper_text())]
        out.append(" & ".join(cells) + " \\\\")
    origin = " ".join(filter(None, (report.origin, report.copied)))
    across = f"\\multicolumn{{{1 + 2 * len(columns)}}}{{l}}{{\\footnotesize {_tex(origin)}}} \\\\"
    return "\n".join([*out, "\\bottomrule", across, "\\end{tabular}", ""])


def _md(text: str) -> str:
    return text.translate(IN_MARKDOWN)


def _tex(text: str) -> str:
    return text.translate(IN_LATEX)
