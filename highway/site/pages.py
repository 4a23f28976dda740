"""Writes the pages of the site, and only those that change."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from highway.files.kept import Kept, signature
from highway.files.writing import write_text
from highway.report.sections import Code, Grid, GridCell, Judgement, Notes, Number, Paragraph, Picture, Seeds
from highway.report.verdicts import tone


class Pages:
    """The pages of a site. A page is written if its file or what it was made from has changed."""

    def __init__(self, folder: Path, kept: Kept, refresh: int) -> None:
        self.folder, self.kept, self.refresh = folder, kept, refresh
        self.before = kept.read("site", str(folder)) or {}
        self.after: dict[str, Any] = {}

    def write(self, path: Path, key: object, content: Callable[[], str]) -> None:
        """Write a page; `key` tells all that its content shows from anything else."""
        name = path.relative_to(self.folder).as_posix()
        made_from = hashlib.sha256(repr((self.refresh, key)).encode()).hexdigest()
        if self.before.get(name) != [made_from, signature(path)]:
            write_text(path, content(), durable=False)
        self.after[name] = [made_from, signature(path)]

    def rendered(self, path: Path, template: str, **content: Any) -> str:
        root = Path(os.path.relpath(self.folder, path.parent)).as_posix()
        return templates().get_template(template).render(root=root, refresh=self.refresh, **content)

    def close(self) -> None:
        """Remove the pages of runs that are no longer shown, and keep what the others were made from."""
        for path in (self.folder / "cells").glob("*"):
            if f"cells/{path.name}" not in self.after and path.suffix in (".html", ".js"):
                path.unlink()
        self.kept.write("site", str(self.folder), self.after)


@cache
def templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("highway.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"tone": tone, "mark": mark, "for_page": for_page, "sort_value": sort_value}
    kinds = (Code, Grid, Judgement, Notes, Number, Paragraph, Picture, Seeds)
    environment.tests |= {f"{kind.__name__.lower()}_": _is(kind) for kind in kinds}  # jinja has a test `number`
    return environment


def _is(kind: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kind)


def mark(word: str) -> str:
    """Return a sign for the tone of a verdict, so that colour is not its only sign."""
    return {"for": "✓", "against": "✗", "open": "·"}[tone(word)]


def for_page(grid: Grid) -> Grid:
    """Return a grid as a page shows it: expanded, with the column of runs last."""
    wide = grid.expanded()
    order = sorted(
        range(len(wide.heads)), key=lambda number: any(isinstance(r.cells[number], Seeds) for r in wide.rows)
    )
    rows = tuple(replace(row, cells=tuple(row.cells[number] for number in order)) for row in wide.rows)
    return Grid(tuple(wide.heads[number] for number in order), rows)


def sort_value(cell: GridCell) -> str:
    """Return the value that a numeric column sorts a cell by; missing values come last."""
    return f"{cell.value:.10g}" if isinstance(cell, Number) else ""
