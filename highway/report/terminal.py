"""A report on a terminal. A measured cell has our number on one line, the paper's and the difference below it."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from highway.report.evidence import tone
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

COLOURS = {"for": "green", "against": "red", "open": "yellow"}  # by tone
STYLES = {"": "", "strong": "bold", "note": "dim"}  # of paragraphs
TITLE = "bold"
LABEL = 24  # characters of a label that stay on one line


def print_report(report: Report, console: Console) -> None:
    console.print(Text(report.heading, style=TITLE))
    print_sections(report.sections, console)


def print_outcome(report: Report, console: Console) -> None:
    """Print the heading of a report, and what came out."""
    console.print(Text(f"\n{report.heading}", style=TITLE))
    console.print(Text(report.outcome))


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
            return Stacked(block) if any(_seeds(row) for row in block.rows) else Flat(block.expanded())
        case Notes():
            return Group(*(Padding(Text(text), (0, 0, 0, 2)) for text in block.texts))
        case Picture():
            return Text(f"  {block.name}.svg, {block.name}.png: {block.caption}.")


def _plain(part: str | Code) -> str:
    return part.text if isinstance(part, Code) else part


@dataclass(frozen=True)
class Flat:
    """A grid with a column for each head; or, where that would cut words off, with a paragraph for each row."""

    grid: Grid

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = [[_text(*pair) for pair in zip(self.grid.heads, row.cells, strict=True)] for row in self.grid.rows]
        widths = self._widths(rows, options.max_width - 1)
        if widths is None:
            yield from self._paragraphs(rows)
            return
        rich_table: Any = RichTable(box=SIMPLE_HEAD)
        for head, width in zip(self.grid.heads, widths, strict=True):
            rich_table.add_column(head.title, justify="right" if head.numeric else "left", width=width)
        for row in rows:
            rich_table.add_row(*row)
        yield rich_table

    def _widths(self, rows: list[list[Text]], room: int) -> list[int] | None:
        """Return a width for each column, so that texts are broken between words and numbers not at all."""
        least, natural = [], []
        for number, head in enumerate(self.grid.heads):
            texts = [head.title, *(row[number].plain for row in rows)]
            natural.append(max(map(len, texts)))
            words = [word for text in texts for word in text.split()]
            least.append(natural[-1] if head.numeric else max(map(len, words), default=0))
        left = room - sum(width + 3 for width in least)  # a space on each side, and one between columns
        if left < 0:
            return None
        while left and (wanting := [number for number in range(len(least)) if least[number] < natural[number]]):
            narrowest = min(wanting, key=lambda number: least[number])
            least[narrowest] += 1
            left -= 1
        return least

    def _paragraphs(self, rows: list[list[Text]]) -> RenderResult:
        for label, *cells in rows:
            yield Padding(label, (1, 0, 0, 2))
            named = zip(self.grid.heads[1:], cells, strict=True)
            yield Padding(Text("; ").join(Text.assemble(f"{head.title}: ", cell) for head, cell in named), (0, 0, 0, 4))
        yield ""


def _text(head: Head, cell: GridCell) -> Text:
    style = COLOURS[tone(cell.word)] if isinstance(cell, Judgement) else ""
    return Text(head.missing if cell is None else str(cell), style=style)


def _seeds(row: GridRow) -> Seeds | None:
    return next((cell for cell in row.cells if isinstance(cell, Seeds)), None)


@dataclass(frozen=True)
class Stacked:
    """The results: metrics that do not fit beside the labels of the rows come in further tables below."""

    grid: Grid

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        grid = self.grid
        room = options.max_width - 2 - min(LABEL, max(len(str(row.cells[0])) for row in grid.rows))
        tables: list[list[int]] = [[]]
        left = room
        for number in (number for number, head in enumerate(grid.heads) if head.numeric):
            width = _widest(grid, number) + 3
            if width > left and tables[-1]:
                tables.append([])
                left = room
            tables[-1].append(number)
            left -= width
        for measured in tables:
            yield _stacked(grid, measured)


def _widest(grid: Grid, number: int) -> int:
    head = grid.heads[number]
    return max(map(len, [head.title, *(line for row in grid.rows for line in _lines(head, row.cells[number]))]))


def _stacked(grid: Grid, measured: Sequence[int]) -> RichTable:
    """Return a table of some metrics: the runs below the label of a row, all numbers of a metric in one column."""
    rich_table: Any = RichTable(box=SIMPLE_HEAD)
    rich_table.add_column(grid.heads[0].title, overflow="fold")
    for number in measured:  # labels are broken before numbers are
        width = _widest(grid, number)
        rich_table.add_column(grid.heads[number].title, justify="right", no_wrap=True, min_width=width)
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
    paper, difference = cell.paper_number, cell.difference
    lines = [str(cell.our_number)] if cell.our_number else wrap(cell.reason, 10)  # labels need the room
    if head.compared == "paper" and paper:
        lines += [f"paper {paper}", *([difference.text(), difference.verdict] if difference else [])]
    if head.compared == "base":
        lines += [str(cell.change or ""), f"paper {cell.paper_change}" if cell.paper_change else ""]
    return [line for line in lines if line]
