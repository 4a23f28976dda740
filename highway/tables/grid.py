"""A grid of overrides as a table: each combination of the values that vary is a row, and a row has one run per seed."""

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from highway.cards.metrics import KINDS, SPLITS
from highway.config.project import project
from highway.errors import Refused, as_typed
from highway.ledger.identity import names_run
from highway.tables.reading import metrics_of_runs, table_ids
from highway.tables.table import LONGEST_ID
from highway.tables.typed import Typed, command_line, every_combination, quoted

FOLDERS = ("bench", "cache", "cells", "dashboards", "debug", "grids", "reference", "report", "wandb")
LONGEST_NAME = 120  # characters of the name of a folder
ALSO = ("parameters", "gate_parameters", "tokens_per_second", "train_seconds")


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
