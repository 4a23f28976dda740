"""The report of a table as an object that prints as text and is shown by a notebook as HTML."""

import io
from dataclasses import dataclass
from html import escape
from pathlib import Path

from rich.console import Console

from highway.config import project
from highway.report.collect import collect
from highway.report.evidence import tone
from highway.report.formats import to_csv, to_latex, to_markdown
from highway.report.report import Report, build_report
from highway.report.sections import Block, Code, Grid, Judgement, Notes, Paragraph, Picture
from highway.report.terminal import print_report
from highway.sweep.grid import find

WIDTH = 120  # characters of a line of text
COLOURS = {"for": "#1a7f37", "against": "#b42318", "open": "#946200"}  # by tone, readable on white and on black


@dataclass(frozen=True)
class Comparison:
    """A table's numbers beside the paper's, and the verdicts. `report` holds all of it as data."""

    report: Report

    def __str__(self) -> str:
        text = io.StringIO()
        print_report(self.report, Console(file=text, width=WIDTH))
        return text.getvalue()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [f"<h3>{escape(self.report.heading)}</h3>"]
        for section in self.report.sections:
            parts += [f"<h4>{escape(section.title)}</h4>"] if section.title else []
            parts += [_html(block) for block in section.blocks]
        return "\n".join(parts)

    def to_markdown(self) -> str:
        return to_markdown(self.report)

    def to_csv(self) -> str:
        return to_csv(self.report)

    def to_latex(self) -> str:
        return to_latex(self.report)


def compare(table: str, budget: str | None, outputs: Path) -> Comparison:
    """Return the report of a table or grid at a budget."""
    project.load()
    loaded = find(table, outputs)
    return Comparison(build_report(collect(loaded, budget or loaded.usual_budget, outputs)))


def _html(block: Block) -> str:
    match block:
        case Paragraph():
            sentences = ("".join(_part(part) for part in sentence) for sentence in block.sentences)
            return f"<p>{' '.join(sentences)}</p>"
        case Notes():
            return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in block.texts)}</ul>"
        case Grid():
            return _grid(block.expanded())
        case Picture():
            return f"<p>{escape(block.caption)}.</p>"


def _part(part: str | Code) -> str:
    return f"<code>{escape(part.text)}</code>" if isinstance(part, Code) else escape(part)


def _grid(grid: Grid) -> str:
    aligned = ["right" if head.numeric else "left" for head in grid.heads]
    heads = "".join(
        f'<th style="text-align:{side}">{escape(head.title)}</th>'
        for head, side in zip(grid.heads, aligned, strict=True)
    )
    lines = []
    for row in grid.rows:
        cells = zip(grid.heads, row.cells, aligned, strict=True)
        lines.append("".join(_cell(head.missing if cell is None else cell, side) for head, cell, side in cells))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _cell(cell: object, side: str) -> str:
    colour = f";color:{COLOURS[tone(cell.word)]}" if isinstance(cell, Judgement) else ""
    return f'<td style="text-align:{side}{colour}">{escape(str(cell))}</td>'
