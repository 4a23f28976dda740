"""Read what was typed for a sweep, and spell runs and settings as one types them.

Nothing imports Hydra before a sweep is read: reports spell commands too, and have to start quickly.
"""

import itertools
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from highway.config.experiment import LARGEST_SEED, SWEEP_ONLY
from highway.config.groups import check_words
from highway.errors import Refused, as_typed, listing

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override
    from omegaconf import DictConfig

MOST_RUNS = 50_000
NEEDS_TABLE = {  # key -> what to do without table=
    "seeds": "For a grid, write seed=1,2",
    "rows": "It chooses among the rows of a table",
    "extra_rows": "It chooses among the rows of a table",
}
NOT_WITH_TABLE = {  # key -> what to do with table=
    "name": "name= names a grid, but table= is given. Leave name= out.",
    "title": "title= and columns= describe a grid. A table's file has its caption and its columns.",
    "columns": "title= and columns= describe a grid. A table's file has its caption and its columns.",
    "choose": "choose= is for a grid. A table's file says what is chosen, under its key `choose`.",
    "seed": "seed= is for a single run or a grid. Choose the seeds of a table with seeds=1,2,3.",
}


@dataclass(frozen=True)
class Typed:
    """The request of a sweep's command line: runs of tables, or, if it names none, of a grid."""

    tables: Sequence[str] = ()
    rows: Sequence[str] = ()  # of the tables; empty: all
    extra_rows: bool = False
    seeds: Sequence[int] = (1,)
    budgets: Sequence[str] = ("paper",)
    name: str | None = None  # of the grid
    title: str = ""
    columns: Sequence[str] = ()
    choose: Sequence[str] = ()  # keys of the grid
    fail_fast: bool = False
    retry_failed: bool = False
    rerun: bool = False
    plan: bool = False
    overrides: Mapping[str, list[str]] = field(default_factory=dict)  # of the runs: key -> values, in the typed order


def read_typed(parsed: Sequence["Override"]) -> Typed:
    """Read the overrides of a sweep; refuse what does not fit together."""
    by_key: dict[str, Override] = {}
    for override in parsed:
        key = override.key_or_group
        if key in SWEEP_ONLY and key in by_key:
            raise Refused(f"{key}= is given twice. Write several values with commas, as in seeds=1,2,3.")
        by_key[key] = override
    given = {key: [value for value in values_of(by_key[key]) if value != "null"] for key in SWEEP_ONLY if key in by_key}
    overrides = {
        override.get_key_element().removeprefix("++"): values_of(override)
        for key, override in by_key.items()
        if key not in SWEEP_ONLY
    }
    tables = given.get("table", [])
    for key, hint in NEEDS_TABLE.items():
        if key in by_key and not tables:
            raise Refused(f"{key}= needs table=. {hint}.")
    for key, sentence in NOT_WITH_TABLE.items():
        if tables and (given.get(key) or key in overrides):
            raise Refused(sentence)
    if len(overrides.get("debug", [])) > 1:
        raise Refused("debug= takes one option in a sweep: debugged runs are not among the results. Name one of them.")
    names = given.get("name", [])
    if len(names) > 1:
        raise Refused(f"name={','.join(names)} gives several names, but a grid has one. Write name={names[0]}.")
    if math.prod(map(len, [*overrides.values(), given.get("seeds", [""])])) > MOST_RUNS:
        raise Refused(
            f"this sweep has more than {MOST_RUNS:,} runs, and each is checked before the first one starts. "
            "Name fewer values."
        )
    return Typed(
        tables=tables,
        rows=given.get("rows", []),
        seeds=_seeds("seeds", given.get("seeds", [])) if tables else _seeds("seed", overrides.get("seed", [])),
        budgets=overrides.get("budget", ["paper"]),
        name=names[0] if names else None,
        title=_title(by_key["title"]) if given.get("title") else "",
        columns=given.get("columns", []),
        choose=given.get("choose", []),
        overrides=overrides,
        **{key: _is_true(key, given) for key in ("extra_rows", "fail_fast", "retry_failed", "rerun", "plan")},
    )


def every_combination(choices: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """List every combination of the values of these keys, as overrides."""
    settings = [[f"{key}={value}" for value in values] for key, values in choices.items()]
    combinations = [list(combination) for combination in itertools.product(*settings)]
    for combination in combinations:
        check_words(combination)
    return combinations


def values_of(override: "Override") -> list[str]:
    """Return the values that an override lists."""
    from hydra.core.override_parser.types import ValueType
    from hydra.errors import HydraException

    if not override.is_sweep_override():
        return [override.get_value_element_as_str()]
    try:
        values = [str(value) for value in itertools.islice(override.sweep_string_iterator(), MOST_RUNS + 1)]
    except (HydraException, ValueError, TypeError) as error:
        why = " ".join(str(error).split())
        raise Refused(
            f"{override.input_line} does not list its values ({why}). Write them with commas, as in seed=1,2,3."
        ) from error
    if override.value_type is ValueType.GLOB_CHOICE_SWEEP:
        values = [value for value in values if not value.startswith("_")]
    if not values:
        raise Refused(f"{override.input_line} gives no value. Write values with commas, as in seed=1,2,3.")
    return values


def _seeds(key: str, values: list[str]) -> list[int]:
    """Return the seeds that are given; seed 1 if none is."""
    for value in values:
        if not value.isdecimal() or int(value) > LARGEST_SEED:
            raise Refused(f"{key}={value} must be a whole number from 0 to {LARGEST_SEED}. Write {key}=1,2,3.")
    return [int(value) for value in values] or [1]


def _is_true(key: str, given: Mapping[str, list[str]]) -> bool:
    value = ",".join(given.get(key) or ["false"]).lower()
    if value not in ("true", "false"):
        raise Refused(f"{key}={value} is unknown; it takes {listing(['true', 'false'])}.")
    return value == "true"


def _title(override: "Override") -> str:
    """Return a title as typed; with a comma it looks like a list of values."""
    return str(override.input_line).partition("=")[2] if override.is_sweep_override() else str(override.value())


def command_line(overrides: Sequence[str]) -> str:
    """Return the shell command that repeats a run, without the folders and the logger's settings that a sweep adds."""
    repeated = [
        override
        for override in overrides
        if not re.match(r"(hydra\.(?!searchpath=)|(data_dir|outputs_dir)=|logger[.=])", override)
    ]
    return f"highway train {shlex.join(repeated)}"


def search_path(config: "DictConfig") -> list[str]:
    """Return the override that repeats a command's -cd and hydra.searchpath elsewhere; an empty list without them."""
    sources = [
        f"file://{Path(source.path).resolve()}" if source.schema == "file" else f"{source.schema}://{source.path}"
        for source in config.hydra.runtime.config_sources
        if source.provider.startswith("hydra.searchpath")
    ]
    return [f"hydra.searchpath=[{','.join(map(quoted, sources))}]"] if sources else []


def as_override(key: str, value: Any) -> str:
    """Return a setting as one types it: `layers.attention=[1,2,3]`."""
    text = as_typed(value) if value is None or isinstance(value, bool) else str(value).replace(", ", ",")
    return f"{key}={text}"


def quoted(text: str) -> str:
    """Quote a text for Hydra's grammar, which treats backslashes before a quote, before `${` and at the end."""
    escaped = re.sub(r"(\\*)\$\{", r"\1\1\\${", text)
    return "'" + re.sub(r"(\\*)('|$)", lambda match: match[1] * 2 + match[2].replace("'", "\\'"), escaped) + "'"


def key_of(override: str) -> str:
    return override.split("=", 1)[0]


def last_on_each_key(overrides: Sequence[str]) -> list[str]:
    """Drop repeated keys from overrides: the last override of a key counts, in its place."""
    last: dict[str, str] = {}
    for override in overrides:
        last.pop(key_of(override), None)
        last[key_of(override)] = override
    return list(last.values())
