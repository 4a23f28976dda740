"""Settings that validation chooses: the key `choose` of a table file, or of a row of it.

    choose:
      optimizer.lr: {paper: [0.00005, 0.0005, 0.000005]}     values and their source: paper, own, or both
      model.dropout: [0.1, 0.2]                              a plain list is our own; two keys are combined
      by: valid_nll
      budgets: [paper]          at the other budgets, and until something is chosen, the first combination counts

A row may state what was chosen before, as in `chosen: {paper: [optimizer.lr=0.0005]}`; then no trial is trained.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from highway.config.metrics import METRICS
from highway.config.schema import PLAIN, Wrong, check_of
from highway.errors import Refused, counted, listing

SOURCES = ("paper", "own")
LONGEST = 64  # combinations of a row
FIRST_SEED = 1  # the seed that chooses for all

Combination = tuple[str, ...]  # overrides


@dataclass(frozen=True)
class Choose:
    """The combinations that are tried for a row, and the metric that chooses one of them."""

    combinations: tuple[Combination, ...]
    by: str  # a metric of the validation split
    sources: tuple[str, ...]  # of each combination, one of SOURCES
    budgets: tuple[str, ...] = ()  # empty: all

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(key_of(override) for override in self.combinations[0])

    @property
    def rule(self) -> str:
        """The rule in a sentence, with the combinations and their sources."""
        tried = (f"{' '.join(each)} ({source})" for each, source in zip(self.combinations, self.sources, strict=True))
        return f"by {METRICS[self.by].name} of seed {FIRST_SEED}, among {listing(list(tried))}"

    def at(self, budget: str) -> bool:
        return not self.budgets or budget in self.budgets


@dataclass(frozen=True)
class WrittenRule:
    """The keys of `choose` in a file that are not settings."""

    by: str
    budgets: tuple[str, ...] = ()


def read_choose(content: Any, where: str) -> Choose:
    """Check the content of a `choose` of a table file."""
    where = f"{where}, choose"
    given = {key: value for key, value in content.items() if "." not in key}
    try:
        check_of(WrittenRule)(given)
    except Wrong as wrong:
        raise Refused(f"{where}: {wrong}. Settings have a dot in their names, as in optimizer.lr.") from None
    options = [_options(key, values, where) for key, values in content.items() if key not in given]
    if math.prod(map(len, options)) > LONGEST:
        raise Refused(f"{where}: the values make more than {LONGEST} combinations. Name fewer values.")
    combined = list(itertools.product(*options))
    if len(combined) < 2:
        raise Refused(f"{where}: {counted(len(combined), 'combination')} leaves nothing to choose. Name two or more.")
    combinations = tuple(tuple(override for override, _ in chosen) for chosen in combined)
    if twice := [each for each in combinations if combinations.count(each) > 1]:
        raise Refused(f"{where}: {' '.join(twice[0])} is given twice. Leave it out once.")
    sources = tuple("paper" if all(source == "paper" for _, source in chosen) else "own" for chosen in combined)
    return Choose(combinations, given["by"], sources, tuple(given.get("budgets", ())))


def _options(key: str, values: Any, where: str) -> list[tuple[str, str]]:
    """Return an override and its source for each value of a setting; a plain list is our own."""
    where = f"{where}, {key}"
    by_source = values if isinstance(values, dict) else {"own": values}
    if not by_source:
        raise Refused(f"{where}: it has no values. Write a list, as in [0.1, 0.01].")
    if unknown := [source for source in by_source if source not in SOURCES]:
        known = listing(list(SOURCES))
        raise Refused(f"{where}: the source {unknown[0]!r} is unknown. Write {known}, each with a list.")
    if not all(isinstance(entries, Sequence) and not isinstance(entries, str) for entries in by_source.values()):
        raise Refused(f"{where}: it is not a list of values. Write one, as in [0.1, 0.01].")
    return [(f"{key}={_written(value, where)}", source) for source, entries in by_source.items() for value in entries]


def _written(value: Any, where: str) -> str:
    """Return a value as an override has it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str) or PLAIN[float](value):
        return str(value)
    raise Refused(f"{where}: {value!r} is not a value of a setting.")


def key_of(override: str) -> str:
    return override.split("=", 1)[0]
