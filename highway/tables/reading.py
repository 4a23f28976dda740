"""Read tables by name: those of conf/table/, and the grids that were run here or published.

A grid is saved with its command in outputs/grids/<name>/table.yaml; published ones are in outputs/reference/grids/. A
mistake anywhere in a file is refused with a message before anything runs.
"""

import logging
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from highway.config import home
from highway.config.groups import options
from highway.config.project import conf_file, needs_project
from highway.errors import Refused, closest, listing
from highway.keys.schema import validated
from highway.keys.yaml_file import Yaml, parsed
from highway.tables.checking import check_table
from highway.tables.table import Claim, Row, Table
from highway.tables.typed import command_line

log = logging.getLogger("highway")


def find(name: str, outputs_dir: Path) -> Table:
    """Load a table, or a grid that was run here, by its name."""
    grids = saved("table.yaml", outputs_dir)
    if name in grids:
        return _read_grid(grids[name])
    if name in table_ids():
        return load_table(name)
    known = [*table_ids(), *sorted(grids)]
    if any((outputs_dir / name).glob("*/*/seed*")) or (outputs_dir / "report" / name).is_dir():
        raise Refused(
            f"there is no table '{name}' here, but {outputs_dir} has runs of it. Type the command in the folder of its "
            "project, or set HIGHWAY_PROJECT to that folder."
        )
    raise Refused(f"there is no table or grid '{name}'.{closest(name, known)} Available: {listing(known)}.")


def table_ids(trained: bool = False) -> list[str]:
    """List the ids of all tables; `trained`: only of those whose rows are trained, and not timed."""
    return [name for name in options("table") if not (trained and load_table(name).timed)]


def load_table(table_id: str) -> Table:
    """Read and check the table of this id."""
    path = conf_file(f"table/{table_id}.yaml")
    if not path.exists():
        known = table_ids()
        raise Refused(f"there is no table '{table_id}'.{closest(table_id, known)} Available: {listing(known)}.")
    file = parsed(path.read_bytes(), path.name)
    if not isinstance(file.content, dict) or file.content.get("id") != table_id:
        raise Refused(f"{path.name}: the id of a table must be the name of its file. Write `id: {table_id}`.")
    return read_table(file)


def parse_table(content: dict[str, Any]) -> Table:
    """Check the content of a table file and return the table."""
    return read_table(Yaml(str(content.get("id", "a table")), content, None))


def read_table(file: Yaml) -> Table:
    """Check a table file and return the table."""
    table = _completed(validated(Table, file.content, file=file))
    check_table(table)
    return table


def _completed(table: Table) -> Table:
    """Return a table with all rows together, each with the settings to choose, and with `rest` replaced."""
    papers = [row.id for row in table.rows]
    rows = [row.model_copy(update={"choose": row.choose or table.choose}) for row in table.rows]
    return table.model_copy(
        update={
            "rows": [*rows, *(row.as_extra() for row in table.extra_rows)],
            "extra_rows": [],
            "claims": [_with_rows(claim, papers) for claim in table.claims],
            "against": _against(table, [*table.rows, *table.extra_rows]),
        }
    )


def _against(table: Table, rows: list[Row]) -> dict[str, list[str]]:
    """Return the rows that are compared with each baseline; a row with the parameters of another, with that one."""
    papers = [row.id for row in table.rows if not row.parameters_of]
    against = {base: _named(names, papers, [base]) for base, names in table.against.items()}
    matched = [row for row in rows if row.parameters_of]
    if matched and papers and not against:
        against = {papers[0]: [row.id for row in rows if row.id != papers[0] and not row.parameters_of]}
    for row in matched:
        against[row.parameters_of] = [*against.get(row.parameters_of, ()), row.id]
    return against


def _with_rows(claim: Claim, papers: list[str]) -> Claim:
    return claim.model_copy(update={"than": _named(claim.than, papers, claim.rows)})


def _named(names: list[str], papers: list[str], others: Sequence[str]) -> list[str]:
    """Return row ids; `rest` stands for every row of the paper but `others`."""
    return [name for name in papers if name not in others] if names == ["rest"] else names


def _read_grid(path: Path) -> Table:
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


def grid_names(outputs_dir: Path) -> list[str]:
    """Return the names of the grids that were run here, and of the published ones."""
    return sorted(saved("table.yaml", outputs_dir))


def saved(file: str, outputs_dir: Path) -> dict[str, Path]:
    """Return the files of this name by the folder that each is in; one of this machine hides a published one."""
    folders = (home.REFERENCE / "grids", outputs_dir / "grids")
    return {path.parent.name: path for folder in folders for path in folder.glob(f"*/{file}")}


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


def command(table: Table, budget: str) -> str:
    """Return the command that trains, or times, every row of a table or a grid."""
    if table.timed:
        return table.time_command(budget)
    if table.id in table_ids():
        return command_line(["-m", f"table={table.id}", f"budget={budget}", "seeds=1,2,3", *table.added])
    return " ".join([table.command, shlex.join(table.added)]).strip()
