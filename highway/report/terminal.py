"""The table on a terminal: ours on one line of a cell, the paper's value and the difference below it."""

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table as RichTable
from rich.text import Text

from highway.report.render import (
    AGAINST,
    COMPARED,
    SPREAD,
    Entry,
    Line,
    Report,
    compared_cells,
    difference_cells,
    spreads,
)
from highway.report.statistics import tone

COLOURS = {"for": "green", "against": "red", "open": "yellow"}  # by tone


def print_report(report: Report, console: Console) -> None:
    table = report.collected.table
    grid: Any = RichTable(box=SIMPLE_HEAD, title=Text(report.heading, style="table.title"), title_justify="left")
    words = [report.answers, report.origin, report.copied, SPREAD if spreads(report) else None]
    grid.caption, grid.caption_justify = Text(" ".join(filter(None, words)), style="table.caption"), "left"
    grid.add_column("model", overflow="fold")
    for number, column in enumerate(report.collected.table.columns):
        texts = [text for line in report.lines for text in _texts(line.entries[number])]
        widest = max(map(len, [column.title, *texts]))
        grid.add_column(column.title, justify="right", no_wrap=True, min_width=widest)  # it is labels that give way
    before_arms = True
    for line in report.lines:
        if line.row.arm and before_arms:
            grid.add_section()
            before_arms = False
        grid.add_row(Group(Text(line.row.label), Text(line.status, style="dim")), *_cells(line))
        grid.add_row()
    claims = RichTable(box=SIMPLE_HEAD, title="Claims of the paper" if table.paper else "Claims", title_justify="left")
    claims.add_column("claim")
    claims.add_column("verdict")
    claims.add_column("detail", style="dim")
    for verdict in report.verdicts:
        claims.add_row(
            Text(verdict.claim.text), Text(verdict.word, style=COLOURS[tone(verdict.word)]), Text(verdict.detail)
        )
    if table.also:
        also = RichTable(box=SIMPLE_HEAD, title="Measured as well", title_justify="left")
        also.add_column("model")
        for column in table.also:
            also.add_column(column.title, justify="right")
        for line in report.lines:
            also.add_row(Text(line.row.label), *(entry.ours_text() for entry in line.also))
        grid = Group(grid, also)
    console.print(Group(grid, Text(report.rank_agreement or ""), *([claims] if report.verdicts else [])))
    if report.differences:
        against = RichTable(
            box=SIMPLE_HEAD, title=Text(f"Against {table.rows[0].label}, {table.columns[0].title}", style="table.title")
        )
        against.title_justify = "left"
        for head in AGAINST:
            against.add_column(head, justify="left" if head == "model" else "right")
        for cells in difference_cells(report):
            against.add_row(*map(Text, cells))
        console.print(against)
    if report.compared:
        compared = RichTable(box=SIMPLE_HEAD, title="Paired bootstrap", title_justify="left")
        for head in COMPARED:
            compared.add_column(head, justify="left" if head in ("model", "against") else "right")
        for one in report.compared:
            compared.add_row(*map(Text, compared_cells(one)))
        console.print(compared)


def _cells(line: Line) -> list[Group]:
    cells = []
    for entry in line.entries:
        ours, *below = _texts(entry)
        cells.append(Group(Text(ours), *(Text(text, style="dim") for text in below)))
    return cells


def _texts(entry: Entry) -> list[str]:
    """Ours, and below it the paper's and what becomes of it."""
    if entry.paper is None:
        return [entry.ours_text()]
    return [entry.ours_text(), f"paper {entry.paper_text()}", *filter(None, entry.difference_text().split(", "))]
