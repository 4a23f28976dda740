"""A report as Markdown, CSV and LaTeX. The same records give the same bytes, on any day and any machine."""

import csv
import io
from collections.abc import Sequence

from highway.report.report import Report
from highway.report.sections import (
    COPIED,
    Block,
    Code,
    Grid,
    GridCell,
    Head,
    Judgement,
    Measured,
    Notes,
    Number,
    Paragraph,
    Picture,
    Sentence,
)

EXTRA_ROWS = "Extra rows (not in the paper)"
PLUS_MINUS = "\\pm"  # in LaTeX
IN_LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        **{"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}"},
        **{"<": "\\textless{}", ">": "\\textgreater{}", "—": "--", COPIED: "\\dag{}", "\n": " "},
    }
)
IN_MARKDOWN = str.maketrans(
    {**{character: f"\\{character}" for character in "\\|*`[]"}, "<": "&lt;", ">": "&gt;", "\n": " "}
)
CSV_COLUMNS = (
    "table", "budget", "data", "row", "label", "extra", "metric", "select",
    "seeds", "mean", "deviation", "paper", "difference", "change", "paper_change",
)  # fmt: skip


def to_markdown(report: Report) -> str:
    parts = [f"# {_markdown(report.heading)}"]
    for section in report.sections:
        parts += [f"## {_markdown(section.title)}"] if section.title else []
        parts += [part for block in section.blocks for part in _markdown_block(block)]
    return "\n\n".join(parts) + "\n"


def _markdown_block(block: Block) -> list[str]:
    match block:
        case Paragraph():
            text = "\n".join(map(_markdown_sentence, block.sentences))
            return [f"**{text}**" if block.style == "strong" else text]
        case Grid():
            return _markdown_grid(block.expanded())
        case Notes():
            return ["\n".join(f"- {_markdown(text)}" for text in block.texts)]
        case Picture():
            return [f"![{block.name}]({block.name}.svg)", f"*{_markdown(block.caption)}.*"]


def _markdown_grid(grid: Grid) -> list[str]:
    head = "| " + " | ".join(_markdown(head.title) for head in grid.heads) + " |"
    rule = "|" + "".join(" ---: |" if head.numeric else " --- |" for head in grid.heads)
    parts = []
    for title, extra in (("", False), (EXTRA_ROWS, True)):
        rows = [
            "| " + " | ".join(map(_markdown_cell, grid.heads, row.cells)) + " |"
            for row in grid.rows
            if row.extra is extra
        ]
        parts += [f"## {title}"] if rows and title else []
        parts += ["\n".join([head, rule, *rows])] if rows else []
    return parts


def _markdown_cell(head: Head, cell: GridCell) -> str:
    if isinstance(cell, Judgement):
        return f"**{_markdown(cell.word)}**"
    return _markdown(head.missing if cell is None else str(cell))


def _markdown_sentence(sentence: Sentence) -> str:
    return "".join(f"`{part.text}`" if isinstance(part, Code) else _markdown(part) for part in sentence)


def to_csv(report: Report) -> str:
    """Return a line for each measured cell of each section, with every digit."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    collected = report.collected
    select = collected.table.select
    origin = [collected.table.id, collected.budget, collected.data_source]
    grids = [block for section in report.sections for block in section.blocks if isinstance(block, Grid)]
    measured: dict[str, list[list[object]]] = {row.row.id: [] for row in report.rows}
    for grid in grids:
        for line in grid.rows:
            for cell in line.cells:
                if line.row and isinstance(cell, Measured):
                    numbers = _csv_numbers(cell, report.comparison)
                    labels = [line.row.id, line.row.label, line.extra, cell.column.metric, select]
                    measured[line.row.id].append([*origin, *labels, *numbers])
    writer.writerows(map(no_formula, line) for lines in measured.values() for line in lines)
    return text.getvalue()


def no_formula(cell: object) -> object:
    """Mark a text that a spreadsheet would take for a formula, as it asks for it: with an apostrophe."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@") else cell


def _csv_numbers(cell: Measured, comparison: str) -> Sequence[float | None]:
    ours = cell.ours
    shown = [cell.difference if comparison == "paper" else None]
    shown += [cell.change, cell.paper_change] if comparison else [None, None]
    compared = (number.value if number else None for number in shown)
    return [*((ours.count, ours.mean, ours.deviation) if ours else (0, None, None)), cell.paper, *compared]


def to_latex(report: Report) -> str:
    """Return the section of results as one tabular, to be set in a paper."""
    results = next(block for block in report.sections[0].blocks if isinstance(block, Grid))
    compared = [head for head in results.heads if head.numeric]
    added = {"paper": ["paper"], "base": ["change", "paper's"]}.get(report.comparison, [])
    across = 1 + len(added)  # columns of a metric
    titles = " & ".join(f"\\multicolumn{{{across}}}{{c}}{{{_latex(head.title)}}}" for head in compared)
    lines = [
        *(f"% {' '.join(text.split())}" for text in (report.heading, report.origin)),
        "% needs \\usepackage{booktabs}",
        "\\begin{tabular}{l" + "r" * across * len(compared) + "}",
        "\\toprule",
        f" & {titles} \\\\",
        "model" + "".join(f" & {title}" for title in ["ours", *added]) * len(compared) + " \\\\",
        "\\midrule",
    ]
    for row in results.rows:
        cells = [text for head, cell in zip(results.heads, row.cells, strict=True) for text in _latex_cell(head, cell)]
        lines.append(" & ".join(cells) + " \\\\")
    origin = _latex(" ".join(filter(None, (report.origin, report.copied))))
    note = f"\\multicolumn{{{1 + across * len(compared)}}}{{l}}{{\\footnotesize {origin}}} \\\\"
    return "\n".join([*lines, "\\bottomrule", note, "\\end{tabular}", ""])


def _latex_cell(head: Head, cell: GridCell) -> list[str]:
    """Return the columns of a cell; the runs of a row are left out."""
    if isinstance(cell, str):
        return [_latex(cell)]
    if not isinstance(cell, Measured):
        return []
    ours = f"${cell.our_number.text(PLUS_MINUS)}$" if cell.our_number else _latex(cell.reason)
    numbers = {"paper": [cell.paper_number], "base": [cell.change, cell.paper_change]}.get(head.compared, [])
    return [ours, *(_latex(_number(head, number)) for number in numbers)]


def _number(head: Head, number: Number | None) -> str:
    return head.missing if number is None else str(number)


def _markdown(text: str) -> str:
    return text.translate(IN_MARKDOWN)


def _latex(text: str) -> str:
    return text.translate(IN_LATEX)


TEXTS = {"table.md": to_markdown, "table.csv": to_csv, "table.tex": to_latex}  # name of the file -> layout
