"""A report on a terminal. A measured cell has our number on one line, the paper's and the difference below it."""

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from highway.report.report import Report
from highway.report.sections import (
    Block,
    Code,
    Grid,
    GridCell,
    GridRow,
    Head,
    Judgement,
    Measured,
    Notes,
    Paragraph,
    Picture,
    Section,
    Seeds,
)
from highway.report.verdicts import tone

COLOURS = {"for": "green", "against": "red", "open": "yellow"}  # by tone
STYLES = {"": "", "strong": "bold", "note": "dim"}  # of paragraphs
TITLE = "bold"


def print_report(report: Report, console: Console) -> None:
    console.print(Text(report.heading, style=TITLE))
    print_sections(report.sections, console)


def print_sections(sections: Sequence[Section], console: Console) -> None:
    for section in sections:
        if section.title:
            console.print(Text(f"\n{section.title}", style=TITLE))
        for block in section.blocks:
            console.print(_block(block))


def _block(block: Block) -> RenderableType:
    match block:
        case Paragraph():
            sentences = ("".join(_plain(part) for part in sentence) for sentence in block.sentences)
            return Text(" ".join(sentences), style=STYLES[block.style])
        case Grid():
            return _stacked(block) if any(_seeds(row) for row in block.rows) else _flat(block)
        case Notes():
            return Group(*(Padding(Text(text), (0, 0, 0, 2)) for text in block.texts))
        case Picture():
            return Text(f"  {block.name}.svg, {block.name}.png: {block.caption}.")


def _plain(part: str | Code) -> str:
    return part.text if isinstance(part, Code) else part


def _flat(grid: Grid) -> RichTable:
    """Return a grid with a line for each row and a column for each number."""
    grid = grid.expanded()
    rich_table: Any = RichTable(box=SIMPLE_HEAD)
    for head in grid.heads:
        rich_table.add_column(head.title, justify="right" if head.numeric else "left")
    for row in grid.rows:
        rich_table.add_row(*(_text(head, cell) for head, cell in zip(grid.heads, row.cells, strict=True)))
    return rich_table


def _text(head: Head, cell: GridCell) -> Text:
    style = COLOURS[tone(cell.word)] if isinstance(cell, Judgement) else ""
    return Text(head.missing if cell is None else str(cell), style=style)


def _seeds(row: GridRow) -> Seeds | None:
    return next((cell for cell in row.cells if isinstance(cell, Seeds)), None)


def _stacked(grid: Grid) -> RichTable:
    """Return the results: the runs below the label of a row, and all numbers of a metric in one column."""
    rich_table: Any = RichTable(box=SIMPLE_HEAD)
    rich_table.add_column(grid.heads[0].title, overflow="fold")
    measured = [number for number, head in enumerate(grid.heads) if head.numeric]
    for number in measured:
        head = grid.heads[number]
        lines = [line for row in grid.rows for line in _lines(head, row.cells[number])]
        widest = max(map(len, [head.title, *lines]))  # labels are broken before numbers are
        rich_table.add_column(head.title, justify="right", no_wrap=True, min_width=widest)
    extra = False
    for row in grid.rows:
        if row.extra and not extra:
            rich_table.add_section()
        extra = row.extra
        numbers = (_stack(_lines(grid.heads[number], row.cells[number])) for number in measured)
        rich_table.add_row(_stack([str(row.cells[0]), str(_seeds(row) or "")]), *numbers)
        rich_table.add_row()
    return rich_table


def _stack(lines: list[str]) -> Group:
    first, *below = lines
    return Group(Text(first), *(Text(line, style="dim") for line in below))


def _lines(head: Head, cell: GridCell) -> list[str]:
    """Return our number, and below it the paper's, the difference and the verdict on it; or the changes."""
    if not isinstance(cell, Measured):
        return [str(cell)]
    ours, paper, difference = cell.our_number, cell.paper_number, cell.difference
    lines = [str(ours or head.missing)]
    if head.compared == "paper" and paper:
        lines += [f"paper {paper}", *([difference.text(), difference.verdict] if difference else [])]
    if head.compared == "base":
        lines += [str(cell.change or ""), f"paper {cell.paper_change}" if cell.paper_change else ""]
    return [line for line in lines if line]
