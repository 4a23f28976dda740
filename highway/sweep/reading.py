"""Read table files: a mistake anywhere in a file is refused with a message before anything runs."""

from collections.abc import Sequence
from typing import Any

from highway.config.groups import options
from highway.config.mistakes import validated
from highway.config.project import conf_file
from highway.config.yaml_file import Yaml, parsed
from highway.errors import Refused, closest, listing
from highway.sweep.consistency import check_table
from highway.sweep.table import Claim, Table


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


def parse_table(content: dict[str, Any], file: str = "") -> Table:
    """Check the content of a table file and return the table."""
    return read_table(Yaml(file or str(content.get("id", "a table")), content, None))


def read_table(file: Yaml) -> Table:
    """Check a table file and return the table."""
    table = _completed(validated(Table, file.content, file=file))
    check_table(table)
    return table


def _completed(table: Table) -> Table:
    """Return a table with all rows together, each with the settings to choose, and with `all` and `rest` replaced."""
    papers = [row.id for row in table.rows]
    rows = [row.model_copy(update={"choose": row.choose or table.choose}) for row in table.rows]
    return table.model_copy(
        update={
            "rows": [*rows, *(row.as_extra() for row in table.extra_rows)],
            "extra_rows": [],
            "claims": [_with_rows(claim, papers) for claim in table.claims],
            "against": {base: _named(names, papers, [base]) for base, names in table.against.items()},
        }
    )


def _with_rows(claim: Claim, papers: list[str]) -> Claim:
    rows = _named(claim.rows, papers, [])
    return claim.model_copy(update={claim.kind: rows, "than": _named(claim.than, papers, rows)})


def _named(names: list[str], papers: list[str], others: Sequence[str]) -> list[str]:
    """Return row ids; `all` and `rest` stand for every row of the paper but `others`."""
    return [name for name in papers if name not in others] if names in (["all"], ["rest"]) else names
