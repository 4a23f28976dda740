"""Tables by name: those of conf/table/, and the grids that were run here or published.

A grid is saved with its command in outputs/grids/<name>/table.yaml; published ones are in outputs/reference/grids/. The
overrides with which rows of a table were trained are beside it, in overrides.yaml.
"""

import contextlib
import hashlib
import logging
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from highway.config import home
from highway.config.project import needs_project
from highway.errors import Refused, closest, listing
from highway.keys.schema import Written, validated
from highway.keys.yaml_file import as_yaml, parsed
from highway.ledger.files import write_text
from highway.tables.grid import folder_name
from highway.tables.reading import load_table, parse_table, read_table, table_ids
from highway.tables.table import Table
from highway.tables.typed import command_line

log = logging.getLogger("highway")


class Swept(Written):
    """The content of overrides.yaml: the rows of a table were trained with further overrides."""

    table: str
    budget: str
    overrides: list[str]


def find(name: str, outputs_dir: Path) -> Table:
    """Load a table, or a grid that was run here, by its name."""
    grids = _saved("table.yaml", outputs_dir)
    if name in grids:
        return _read(grids[name])
    if name in table_ids():
        return load_table(name)
    known = [*table_ids(), *sorted(grids)]
    if any((outputs_dir / name).glob("*/*/seed*")) or (outputs_dir / "report" / name).is_dir():
        raise Refused(
            f"there is no table '{name}' here, but {outputs_dir} has runs of it. Type the command in the folder of its "
            "project, or set HIGHWAY_PROJECT to that folder."
        )
    raise Refused(f"there is no table or grid '{name}'.{closest(name, known)} Available: {listing(known)}.")


def _read(path: Path) -> Table:
    """Read a grid's table. A grid that needs a project which is not loaded is refused with the name of the project."""
    file = parsed(path.read_bytes(), str(path))
    package = file.content.get("project") if isinstance(file.content, dict) else None
    if package is None or package in sys.modules:
        return read_table(file)
    from hydra.errors import HydraException  # takes a fifth of a second to import

    from highway.config.compose import experiment
    from highway.config.sentences import sentence

    try:
        table = read_table(file)
        for budget in table.budgets:
            for row in table.at(budget):
                experiment(table.overrides(row, budget, 1))
    except (Refused, HydraException) as error:
        raise needs_project(f"the grid {path.parent.name}", str(package), sentence(error)) from error
    return table


def command(table: Table, budget: str) -> str:
    """Return the command that trains, or times, every row of a table or a grid."""
    if table.timed:
        return table.time_command(budget)
    if table.id in table_ids():
        return command_line(["-m", f"table={table.id}", f"budget={budget}", "seeds=1,2,3", *table.added])
    return " ".join([table.command, shlex.join(table.added)]).strip()


@contextmanager
def left_out(name: str) -> Iterator[None]:
    """Log why a grid cannot be shown, so that a report shows the other tables. An error in a table is raised.

    The folder of options that a grid was run with (-cd, hydra.searchpath) may have gone since.
    """
    try:
        yield
    except Refused as wrong:
        if name in table_ids():
            raise
        log.warning("grids/%s is left out: %s To forget it, delete its folder below grids/.", name, wrong)


def grid_names(outputs_dir: Path) -> list[str]:
    """Return the names of the grids that were run here, and of the published ones."""
    return sorted(_saved("table.yaml", outputs_dir))


def names_of(table: str, outputs_dir: Path) -> list[Path]:
    """Return the files that `keep` and `keep_overrides` wrote for a grid or a table."""
    grids, overrides = (_saved(file, outputs_dir).items() for file in ("table.yaml", "overrides.yaml"))
    of_grid = [path for folder, path in grids if folder == table]
    return of_grid + [path for folder, path in overrides if folder.rpartition("-")[0] == table]


def _saved(file: str, outputs_dir: Path) -> dict[str, Path]:
    """Return the files of this name by the folder that each is in; one of this machine hides a published one."""
    folders = (home.REFERENCE / "grids", outputs_dir / "grids")
    return {path.parent.name: path for folder in folders for path in folder.glob(f"*/{file}")}


def keep(content: dict[str, Any], outputs_dir: Path) -> None:
    """Save a grid's table where reports read it. Tell which grid of this name it replaces, if that had other rows."""
    path = outputs_dir / "grids" / content["id"] / "table.yaml"
    with contextlib.suppress(Refused):  # there is none, or it cannot be read
        before = find(content["id"], outputs_dir)
        after = parse_table(content)
        if before.recipe != after.recipe or any(row not in after.rows for row in before.rows):
            log.warning(
                "name=%s was another grid, of which some rows are no longer shown. Its runs stay; to see them again, "
                "give its command with another name: %s",
                before.id,
                before.command,
            )
    write_text(path, as_yaml(content))


def keep_overrides(table: str, budget: str, overrides: Sequence[str], outputs_dir: Path) -> None:
    """Note that rows of a table were trained with further overrides, for the web site."""
    content = Swept(table=table, budget=budget, overrides=list(overrides)).model_dump()
    made = hashlib.sha256(repr(content).encode()).hexdigest()[:8]
    write_text(outputs_dir / "grids" / f"{table}-{made}" / "overrides.yaml", as_yaml(content))


def swept_with_overrides(outputs_dir: Path) -> list[tuple[str, tuple[str, ...], list[str]]]:
    """Return each table that was trained with further overrides: its name, the overrides, and the budgets."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for _, path in sorted(_saved("overrides.yaml", outputs_dir).items()):
        file = parsed(path.read_bytes(), str(path))
        swept = validated(Swept, file.content, file=file)
        if swept.table in table_ids():
            found.setdefault((swept.table, tuple(swept.overrides)), []).append(swept.budget)
    return [(name, overrides, budgets) for (name, overrides), budgets in found.items()]


def folder_of(table: Table) -> str:
    """Return the name of a table's folder in report/; overrides of the command line are a part of it."""
    return folder_name(",".join((table.id, *table.added)))
