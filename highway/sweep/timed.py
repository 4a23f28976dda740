"""The single run that a table of `kind: timing` is.

`highway train table=highway_t7 budget=mini seed=1` is such a run; further overrides apply to every row.
"""

from collections.abc import Callable, Sequence

from highway.config.experiment import Experiment
from highway.errors import Refused
from highway.ledger.together import Timing
from highway.sweep.reading import load_table, table_ids
from highway.sweep.table import last_on_each_key

USUAL = {"table": "", "budget": "paper", "seed": "1"}


def is_timing(arguments: Sequence[str]) -> bool:
    """Return True if a command line has no flags and its table is a timing."""
    tables = [argument.removeprefix("table=") for argument in arguments if argument.startswith("table=")]
    return (
        bool(tables)
        and not any(argument.startswith("-") for argument in arguments)
        and tables[-1] in table_ids("timing")
    )


def timing(overrides: Sequence[str], compose: Callable[[list[str]], Experiment]) -> Timing:
    """Compose the timing that these overrides describe."""
    by_key = {override.split("=", 1)[0]: override for override in overrides if not override.startswith("hydra")}
    table, budget, seed = (by_key.pop(key, f"{key}={usual}").split("=", 1)[1] for key, usual in USUAL.items())
    if not seed.isdecimal():
        raise Refused(f"seed={seed} is not a whole number from 0 upwards.")
    file = load_table(table)
    described = {row.id: file.overrides(row, budget, int(seed)) for row in file.rows}
    rows = {name: compose(last_on_each_key([*overrides, *by_key.values()])) for name, overrides in described.items()}
    return Timing.of(file.rounds, budget, rows)
