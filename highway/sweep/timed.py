"""A table of `kind: timing` as the one run that it is.

`python scripts/train.py table=highway_t7 budget=mini seed=1` is that run; words that follow hold for every row.
"""

from collections.abc import Callable, Sequence

from highway.config.experiment import Experiment
from highway.errors import Refused
from highway.ledger.together import Timing
from highway.sweep.reading import load_table, table_ids
from highway.sweep.table import last_on_each_key

USUAL = {"table": "", "budget": "paper", "seed": "1"}


def is_timing(words: Sequence[str]) -> bool:
    """Whether a command line without flags names such a table."""
    tables = [word.removeprefix("table=") for word in words if word.startswith("table=")]
    return bool(tables) and not any(word.startswith("-") for word in words) and tables[-1] in table_ids("timing")


def timing(words: Sequence[str], compose: Callable[[list[str]], Experiment]) -> Timing:
    """The run that a command line describes."""
    by_key = {word.split("=", 1)[0]: word for word in words if not word.startswith("hydra")}
    table, budget, seed = (by_key.pop(key, f"{key}={usual}").split("=", 1)[1] for key, usual in USUAL.items())
    if not seed.isdecimal():
        raise Refused(f"seed={seed} is not a whole number from 0 upwards.")
    about = load_table(table)
    described = {row.id: about.overrides(row, budget, int(seed)) for row in about.rows}
    rows = {name: compose(last_on_each_key([*words, *by_key.values()])) for name, words in described.items()}
    return Timing.of(about.rounds, budget, rows)
