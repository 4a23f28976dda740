"""A table of texts, as every layout of a report shows it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    cells: tuple[str, ...]
    extra: bool = False  # an extra row, which the paper lacks


@dataclass(frozen=True)
class Grid:
    """Lines below heads; `numeric` columns are aligned to the right."""

    title: str
    heads: tuple[str, ...]
    lines: tuple[Line, ...]
    numeric: tuple[str, ...] = ()
    note: str = ""


def without_empty(grid: Grid) -> Grid:
    """Return a grid without the columns in which no line has a text."""
    kept = [number for number in range(len(grid.heads)) if any(line.cells[number] for line in grid.lines)]
    heads = tuple(grid.heads[number] for number in kept)
    lines = tuple(Line(tuple(line.cells[number] for number in kept), line.extra) for line in grid.lines)
    return Grid(grid.title, heads, lines, grid.numeric, grid.note)
