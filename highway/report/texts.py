"""A report as Markdown, CSV and LaTeX.

Nothing here depends on the day or the machine: the same records give the same bytes.
"""

import csv
import io
from collections.abc import Sequence
from typing import Any

from highway.report.render import (
    AGAINST,
    AGAINST_WORDS,
    BOOTSTRAP,
    COMPARED,
    COPIED,
    REACHED,
    SPREAD,
    Line,
    Report,
    compared_cells,
    difference_cells,
    environments,
    has_paper,
    spreads,
)
from highway.sweep.table import Figure

IN_LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        **{"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}"},
        **{"<": "\\textless{}", ">": "\\textgreater{}", "—": "--", COPIED: "\\dag{}", "\n": " "},
    }
)
IN_MARKDOWN = str.maketrans({**{one: f"\\{one}" for one in "\\|*`[]"}, "<": "&lt;", ">": "&gt;", "\n": " "})
CSV_COLUMNS = (
    "table", "budget", "data", "row", "label", "arm", "metric", "select",
    "seeds", "mean", "deviation", "paper", "difference",
)  # fmt: skip


def to_markdown(report: Report, figures: Sequence[Figure]) -> str:
    table = report.collected.table
    heads = ["model", "seeds"]
    for column in table.columns:
        heads += [column.title, "paper", "difference"] if has_paper(report) else [column.title]
    out = [f"# {_md(report.heading)}", "", *([report.answers, ""] if report.answers else [])]
    out += [_md(report.origin), report.changes, *([SPREAD] if spreads(report) else []), ""]
    out += [text for note in (table.note, report.copied) if note for text in (_md(note), "")]
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
        out += [f"| {' | '.join(REACHED)} |", "| --- | ---: | ---: | ---: |"]
        out += [f"| {' | '.join(map(_md, cells))} |" for cells in report.reached]
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
    if table.choices:
        out += ["## What was left open, and what we took", ""]
        out += [*(f"- {_md(text)}" for text in table.choices), ""]
    out += ["## Where the records come from", "", *(f"- {_md(text)}" for text in environments(report.collected)), ""]
    return "\n".join(out)


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
