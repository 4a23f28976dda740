"""Records as pandas frames: a line for each number of a run, or for each point of its curves."""

import math
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pandas as pd
import yaml
from omegaconf import OmegaConf

from highway.config import project
from highway.config.compose import chosen, compose
from highway.config.groups import groups
from highway.config.home import outputs_folder
from highway.ledger.directory import RunDirectory
from highway.report.collect import Collected, collect
from highway.report.sample import Sample
from highway.tables.reading import find, grid_names, left_out, table_ids

RUN = ("run", "directory", "table", "budget", "row", "seed", "status")
RUNS = (*RUN, "metric", "checkpoint", "value")
POINT = ("step", "epoch", "seconds", "tokens", "split", "metric", "value")


def runs(table: str | None = None, budget: str | None = None) -> pd.DataFrame:
    """Return the numbers of all runs of a table or grid, or of all: a line for each run, metric and checkpoint.

    Columns: run, directory, table, budget, row, seed, status, metric, checkpoint (best or last), value, and each
    setting in which the rows of a table differ.
    """
    lines: list[dict[str, Any]] = []
    swept: dict[str, None] = {}
    for collected in _collected(table, budget):
        settings = _swept(collected)
        for row, sample in collected.runs:
            about, values = _about(collected, row.id, sample), settings[row.id]
            swept |= dict.fromkeys(values)
            for metric, by_checkpoint in sample.result["metrics"].items():
                for checkpoint, value in by_checkpoint.items():
                    lines.append({**values, **about, "metric": metric, "checkpoint": checkpoint, "value": value})
    frame = pd.DataFrame(lines, columns=[*RUNS, *(key for key in swept if key not in RUNS)])
    for key in swept:
        frame[key] = _typed(frame[key])
    return frame


def curves(
    table: str | None = None, budget: str | None = None, split: str | None = None, metric: str | None = None
) -> pd.DataFrame:
    """Return the curves of the runs that `runs` returns: a line a point, with step, epoch, seconds and tokens."""
    lines = [
        (*_about(collected, row.id, sample).values(), *point[:2], point.seconds, point.tokens, *name, point.value)
        for collected in _collected(table, budget)
        for row, sample in collected.runs
        for name, points in sample.curves.items()
        if split in (None, name[0]) and metric in (None, name[1])
        for point in points
    ]
    return pd.DataFrame(lines, columns=[*RUN, *POINT])


def _collected(table: str | None, budget: str | None) -> Iterator[Collected]:
    """Yield the records of a table or grid (None: of all) at a budget (None: at each)."""
    project.load()
    outputs = outputs_folder()
    for name in [table] if table else [*table_ids(), *grid_names(outputs)]:
        with nullcontext() if table else left_out(name):
            loaded = find(name, outputs)
            for chosen in loaded.budgets if budget is None else [budget] if table or budget in loaded.budgets else []:
                yield collect(loaded, chosen, outputs)


def _about(collected: Collected, row: str, sample: Sample) -> dict[str, Any]:
    run = RunDirectory(sample.directory)
    values = (run.id, str(run.path), collected.table.id, collected.budget, row, sample.seed, sample.result["status"])
    return dict(zip(RUN, values, strict=True))


def _swept(collected: Collected) -> dict[str, dict[str, str]]:
    """Return by row the settings in which the rows of a table differ, each as it is typed."""
    overrides = {row: tuple(words) for row, words in collected.overrides.items() if collected.samples[row]}
    set_by = {row: _by_key(words) for row, words in overrides.items()}
    keys = dict.fromkeys(key for values in set_by.values() for key in values if not key.startswith("hydra."))
    for row, values in set_by.items():
        if missing := [key for key in keys if key not in values]:
            values |= _in_effect(overrides[row], missing)
    differing = [key for key in keys if len({values.get(key) for values in set_by.values()}) > 1]
    return {row: {key: values[key] for key in differing if key in values} for row, values in set_by.items()}


def _by_key(overrides: tuple[str, ...]) -> dict[str, str]:
    return dict(override.lstrip("+~").split("=", 1) for override in overrides if "=" in override)


def _in_effect(overrides: tuple[str, ...], keys: list[str]) -> dict[str, str]:
    """Return the values of settings that the overrides of a row leave as they are."""
    config, choices = compose(overrides), chosen(overrides)
    values = {key: choices.get(key) if key in groups() else OmegaConf.select(config, key) for key in keys}
    return {key: _text_of(value) for key, value in values.items() if value is not None}


def _text_of(value: Any) -> str:
    """Return a value as it is typed, on one line."""
    plain = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
    return yaml.safe_dump(plain, default_flow_style=True, sort_keys=False, width=math.inf).split("\n")[0]


def _typed(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return a column of numbers if all its texts are numbers, else of texts, so that every format can hold it."""
    numbers = pd.to_numeric(column, errors="coerce")
    return numbers if numbers.notna().equals(column.notna()) else column
