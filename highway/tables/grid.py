"""A grid of overrides as a table: each combination of the values that vary is a row, and a row has one run per seed.

What is typed is kept in outputs/grids/, where reports read it: the table of a grid, and overrides with which rows of a
table were trained.
"""

import contextlib
import hashlib
import logging
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from highway.cards.metrics import KINDS, SPLITS
from highway.config.project import project
from highway.errors import Refused, as_typed
from highway.keys.schema import Written, validated
from highway.keys.yaml_file import as_yaml, parsed
from highway.ledger.files import write_text
from highway.ledger.identity import names_run
from highway.tables.checking import metrics_of_runs
from highway.tables.reading import find, parse_table, saved, table_ids
from highway.tables.table import LONGEST_ID, Table
from highway.tables.typed import Typed, command_line, every_combination, quoted

log = logging.getLogger("highway")
FOLDERS = ("bench", "cache", "cells", "dashboards", "debug", "grids", "reference", "report", "wandb")
LONGEST_NAME = 120  # characters of the name of a folder
ALSO = ("parameters", "gate_parameters", "tokens_per_second", "train_seconds")


class Swept(Written):
    """The content of overrides.yaml: the rows of a table were trained with further overrides."""

    table: str
    budget: str
    overrides: list[str]


def as_table(typed: Typed, folders: Sequence[str] = ()) -> dict[str, Any]:
    """Return the content of table.yaml for a grid; `folders` is the override that names folders of options, if any.

    The keys that are chosen by validation make no rows.
    """
    choices = {**typed.overrides, **{key: [value] for key, _, value in (each.partition("=") for each in folders)}}
    for key in typed.choose:
        if len(choices.get(key, ())) < 2:
            raise Refused(f"choose={key} needs two or more values of {key}, as in {key}=1,2,3.")
    content = _content({key: values for key, values in choices.items() if key not in typed.choose})
    if typed.columns:
        content["columns"] = [{"metric": metric} for metric in typed.columns]
        content["also"] = [column for column in content["also"] if column["metric"] not in typed.columns]
    if typed.choose:
        by = f"valid_{_shown(content)[0]}"
        content["choose"] = {**{key: choices[key] for key in typed.choose}, "by": by}
    made = hashlib.sha256(yaml.safe_dump(content).encode()).hexdigest()[:8]
    about = {
        "id": _checked(typed.name or f"grid-{made}"),
        "caption": typed.title or in_words(content["rows"], content["recipe"]),
        "command": _command(typed, choices),
    }
    if loaded := project():
        about["project"] = loaded.package
    return {**about, **content}


def _command(typed: Typed, choices: Mapping[str, list[str]]) -> str:
    """Return the command that trains a grid, but for its name."""
    command = command_line(["-m", *(f"{key}={','.join(values)}" for key, values in choices.items())])
    if typed.choose:
        command += f" choose={','.join(typed.choose)}"
    if typed.title:
        command += f" {shlex.quote(f'title={quoted(typed.title)}')}"
    if typed.columns:
        command += f" columns={','.join(typed.columns)}"
    return command


def in_words(rows: Sequence[dict[str, Any]], fixed: Sequence[str]) -> str:
    """Return a title: what varies, and the model and the data that all runs share."""
    values: dict[str, dict[str, None]] = {}
    for override in (override for row in rows for override in row["overrides"]):
        key, _, value = override.partition("=")
        values.setdefault(key, {})[value] = None
    varied = " and ".join(f"{key} ({', '.join(found)})" for key, found in values.items())
    shared = [value for key, _, value in (override.partition("=") for override in fixed) if key in ("model", "dataset")]
    return ": ".join(filter(None, (varied, ", ".join(shared)))) or "a single run"


def folder_name(text: str, longest: int = LONGEST_NAME) -> str:
    """Return a text as the name of a folder or a row; one above `longest` is cut, and a hash tells it from others."""
    name = re.sub(r"[^\w.=,+-]+", "_", text)
    if len(name) <= longest:
        return name
    return f"{name[:LONGEST_NAME]},{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _content(choices: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return a grid's table without what names it: the parts from which the default name is hashed."""
    settings = {key: values for key, values in choices.items() if key not in ("seed", "budget")}
    varying = [key for key, values in settings.items() if len(values) > 1]
    content: dict[str, Any] = {
        "recipe": [
            f"{key}={value[0]}"
            for key, value in settings.items()
            if key == "hydra.searchpath" or (key not in varying and names_run(key))
        ]
    }
    combinations = every_combination({key: settings[key] for key in varying})
    rows = [
        {"id": folder_name(label, LONGEST_ID), "label": label, "overrides": overrides}
        for label, overrides in ((" ".join(overrides) or "run", overrides) for overrides in combinations)
    ]
    kind, splits = _shown({**content, "rows": rows})
    curves = {"id": "curves", "caption": "Training and evaluation", "metrics": [kind], "splits": ["train", splits[0]]}
    return {
        **content,
        "columns": [{"metric": f"{split}_{kind}"} for split in splits],
        "also": [{"metric": metric} for metric in ALSO],
        "rows": rows,
        "figures": [curves],
        "budgets": {budget: [] for budget in choices.get("budget", ["paper"])},
    }


def _shown(content: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return a kind of metric that all rows of a grid measure, and the splits on which all measure it."""
    measured = [metrics_of_runs([*content["recipe"], *row["overrides"]]) for row in content["rows"]]
    common = set.intersection(*(set(available) for _, available in measured))
    for kind in (measured[0][0], *KINDS):
        splits = [split for split in SPLITS if f"{split}_{kind}" in common]
        if splits:
            return kind, splits
    raise Refused("the runs of this grid share no metric, so they cannot be compared. Start them as separate grids.")


def _checked(name: str) -> str:
    if not re.fullmatch(r"\w[\w.-]{0,99}", name):
        raise Refused(
            f"name={as_typed(name)} cannot name a folder. Use letters, digits, dots, dashes and _, as in name=my-grid."
        )
    if name in (*table_ids(), *FOLDERS):
        taken = "a table" if name in table_ids() else "another folder of outputs/"
        raise Refused(f"name={name} is the name of {taken}. Choose another name for the grid.")
    return name


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
    for _, path in sorted(saved("overrides.yaml", outputs_dir).items()):
        file = parsed(path.read_bytes(), str(path))
        swept = validated(Swept, file.content, file=file)
        if swept.table in table_ids():
            found.setdefault((swept.table, tuple(swept.overrides)), []).append(swept.budget)
    return [(name, overrides, budgets) for (name, overrides), budgets in found.items()]


def files_of(table: str, outputs_dir: Path) -> list[Path]:
    """Return the files that `keep` and `keep_overrides` wrote for a grid or a table."""
    grids, overrides = (saved(file, outputs_dir).items() for file in ("table.yaml", "overrides.yaml"))
    of_grid = [path for folder, path in grids if folder == table]
    return of_grid + [path for folder, path in overrides if folder.rpartition("-")[0] == table]


def folder_of(table: Table) -> str:
    """Return the name of a table's folder in report/; overrides of the command line are a part of it."""
    return folder_name(",".join((table.id, *table.added)))
