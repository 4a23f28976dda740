"""Writes the pages of the site."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from highway.config.papers import paper_of
from highway.files.writing import write_text
from highway.report.evidence import tone
from highway.report.sections import (
    Block,
    Code,
    Grid,
    GridCell,
    GridRow,
    Head,
    Judgement,
    Measured,
    Missing,
    Notes,
    Number,
    Paragraph,
    Picture,
    Section,
    Seeds,
)

WRITTEN = (".html", ".js", ".json", ".yaml")  # endings of the files of a run


class Pages:
    """The pages of a site, and the names of the files that were written."""

    def __init__(self, folder: Path, refresh: int) -> None:
        self.folder, self.refresh = folder, refresh
        self.written: set[Path] = set()

    def write(self, path: Path, content: str) -> None:
        write_text(path, content, durable=False)
        self.written.add(path)

    def render(self, path: Path, template: str, **content: Any) -> None:
        """Write a page from its template."""
        root = Path(os.path.relpath(self.folder, path.parent)).as_posix()
        text = templates().get_template(template).render(root=root, refresh=self.refresh, **content)
        self.write(path, text)

    def close(self) -> None:
        """Remove the pages of runs that are no longer shown."""
        for path in (self.folder / "cells").glob("*"):
            if path not in self.written and path.suffix in WRITTEN:
                path.unlink()


@cache
def templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("highway.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    own = (along, as_set, for_page, mark, notes_last, paper_of, sort_value, stem, tone)
    environment.filters |= {function.__name__: function for function in own}
    kinds = (Code, Grid, Judgement, Missing, Notes, Number, Paragraph, Picture, Seeds)
    environment.tests |= {f"{kind.__name__.lower()}_": _is(kind) for kind in kinds}  # jinja has a test `number`
    return environment


def _is(kind: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kind)


def mark(word: str) -> str:
    """Return a sign for the tone of a verdict, so that colour is not its only sign."""
    return {"for": "✓", "against": "✗", "open": "·"}[tone(word)]


def as_set(value: object) -> str:
    """Return the value of a setting as one types it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def stem(link: str) -> str:
    """Return the name of the page that a link leads to."""
    return Path(link).stem


def along(value: float, limit: float) -> float:
    """Return where a value lies on an axis from -limit to limit, in percent of its length."""
    return round(50 + 50 * min(max(value / limit, -1.0), 1.0), 2)


@dataclass(frozen=True)
class Column:
    head: Head
    folded: bool  # shown when the reader asks for all metrics
    group: str = ""  # the metric of which it is one of several columns


@dataclass(frozen=True)
class PageGrid:
    columns: tuple[Column, ...]
    rows: tuple[GridRow, ...]

    @property
    def groups(self) -> list[tuple[str, int, bool]]:
        """The heads above those of the columns: their title, how many columns they span, and whether these are folded.

        Empty if no column has one.
        """
        found = [
            (title, len(list(columns)), folded)
            for (title, folded), columns in groupby(self.columns, lambda column: (column.group, column.folded))
        ]
        return found if any(title for title, _, _ in found) else []


def for_page(grid: Grid, main: str = "") -> PageGrid:
    """Return a grid as a page shows it: expanded, without empty columns, the column of runs last.

    `main`: the metric whose columns come first; those of other metrics are folded.
    """
    parts: list[tuple[bool, Column, tuple[GridCell, ...]]] = []  # of runs, column, cells
    for number, head in enumerate(grid.heads):
        cells = [row.cells[number] for row in grid.rows]
        metrics = {cell.column.metric for cell in cells if isinstance(cell, Measured)}
        alone = Grid((head,), tuple(GridRow((cell,)) for cell in cells)).expanded()
        shown = []
        for place, part in enumerate(alone.heads):
            content = tuple(row.cells[place] for row in alone.rows)
            if (
                not part.numeric
                or not content
                or any(cell is not None and not isinstance(cell, Missing) for cell in content)
            ):
                shown.append((part, content))
        folded = bool(main and metrics and main not in metrics)
        for part, content in shown:
            of_runs = any(isinstance(cell, Seeds) for cell in content)
            grouped = len(shown) > 1
            named = replace(part, title="ours") if grouped and part.title == head.title else part
            parts.append((of_runs, Column(named, folded, head.title if grouped else ""), content))
    parts.sort(key=lambda part: (part[0], part[1].folded))
    rows = (replace(row, cells=tuple(part[2][number] for part in parts)) for number, row in enumerate(grid.rows))
    return PageGrid(tuple(column for _, column, _ in parts), tuple(rows))


def notes_last(section: Section) -> list[Block]:
    """Return the blocks of a section; notes on the results come below them."""

    def is_note(block: Block) -> bool:
        return section.key == "results" and isinstance(block, Paragraph) and block.style == "note"

    return sorted(section.blocks, key=is_note)


def sort_value(cell: GridCell) -> str:
    """Return the value that a numeric column sorts a cell by; missing values come last."""
    return f"{cell.value:.10g}" if isinstance(cell, Number) else ""
