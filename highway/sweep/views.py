"""outputs/<table>/<budget>/<row>/seed<k>: links by table to the cells, which may serve several tables."""

import os
from pathlib import Path

from highway.sweep.cell import Cell


def link_view(cell: Cell, table: str, budget: str, row: str) -> None:
    outputs = cell.directory.parents[2]
    link = outputs / table / budget / row / cell.directory.name
    target = os.path.relpath(cell.directory, link.parent)
    if link.is_symlink() and os.readlink(link) == target:
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    Path(cell.directory).mkdir(parents=True, exist_ok=True)
