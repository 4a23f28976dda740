"""Settings that validation chooses: the key `choose` of a table file, or of a row of it.

    choose:
      optimizer.lr: {paper: [0.00005, 0.0005, 0.000005]}     values and their source: paper, own, or both
      model.dropout: [0.1, 0.2]                              a plain list is our own; two keys are combined
      by: valid_nll
      halving: [0.1, 0.3]       rungs, as shares of a run's steps; without it every trial is trained to its end
      seeds: each               choose for each seed; without it seed 1 chooses for all
      trials: 4                 take only the first four combinations
      budgets: [paper]          at the other budgets, and until something is chosen, the first combination counts

`combinations: {own: [[optimizer.lr=1, model.dropout=0.1], ...]}` lists combinations instead of combining all values.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from highway.config.metrics import METRICS
from highway.config.schema import PLAIN, Range, Wrong, check_of
from highway.errors import Refused, counted, listing

SOURCES = ("paper", "own")
LONGEST = 64  # combinations of a row
FIRST_SEED = 1  # the seed that chooses for all

Combination = tuple[str, ...]  # overrides


@dataclass(frozen=True)
class Choose:
    """The combinations that are tried for a row, and the rule that chooses one of them."""

    combinations: tuple[Combination, ...]
    by: str  # a metric of the validation split
    sources: tuple[str, ...]  # of each combination, one of SOURCES
    halving: tuple[float, ...] = ()  # shares of the steps after which the better half goes on
    seeds: Literal["first", "each"] = "first"
    budgets: tuple[str, ...] = ()  # empty: all

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_key(override) for each in self.combinations for override in each))

    @property
    def description(self) -> str:
        """The rule in a sentence, with the combinations and their sources."""
        tried = ", ".join(
            f"{' '.join(each)} ({source})" for each, source in zip(self.combinations, self.sources, strict=True)
        )
        return f"{self.rule} Tried: {tried}; the first is used until all are compared."

    @property
    def rule(self) -> str:
        """The rule in a sentence."""
        how = "every trial is trained to its end"
        if self.halving:
            rungs = " and ".join(f"{share:.0%}" for share in self.halving)
            how = f"the better half goes on after {rungs} of the steps"
        on = f"seed {FIRST_SEED} chooses for all" if self.seeds == "first" else "each seed chooses for itself"
        return f"{listing(list(self.keys))} by {METRICS[self.by].name}; {on}; {how}."

    def at(self, budget: str) -> bool:
        return not self.budgets or budget in self.budgets

    def chooser(self, seed: int) -> int:
        """Return the seed whose trials choose for a run of this seed."""
        return seed if self.seeds == "each" else FIRST_SEED


@dataclass(frozen=True)
class WrittenRule:
    """The keys of `choose` in a file that are not settings."""

    by: str
    halving: tuple[Annotated[float, Range(0, 1)], ...] = ()
    seeds: Literal["first", "each"] = "first"
    trials: Annotated[int, Range(1, LONGEST)] = LONGEST
    budgets: tuple[str, ...] = ()
    combinations: dict[str, tuple[tuple[str, ...], ...]] | tuple[tuple[str, ...], ...] = ()


def read_choose(content: Any, where: str) -> Choose:
    """Check the content of a `choose` of a table file."""
    where = f"{where}, choose"
    given = {key: value for key, value in content.items() if "." not in key}
    try:
        check_of(WrittenRule)(given)
    except Wrong as wrong:
        raise Refused(f"{where}: {wrong}. Settings have a dot in their names, as in optimizer.lr.") from None
    rule = WrittenRule(**given)
    settings = {key: value for key, value in content.items() if key not in given}
    if bool(settings) == ("combinations" in given):
        raise Refused(f"{where}: write settings with their values, or `combinations` with lists of overrides.")
    made = _combined(settings, where) if settings else _listed(rule.combinations, where)
    if len(made) > LONGEST:
        raise Refused(f"{where}: {len(made)} combinations are more than {LONGEST}. Name fewer values.")
    made = made[: rule.trials]
    combinations, sources = tuple(each for each, _ in made), tuple(source for _, source in made)
    if len(made) < 2:
        raise Refused(f"{where}: {counted(len(made), 'combination')} leaves nothing to choose. Name two or more.")
    if twice := [each for each in combinations if combinations.count(each) > 1]:
        raise Refused(f"{where}: {' '.join(twice[0])} is given twice. Leave it out once.")
    if len({tuple(_key(override) for override in each) for each in combinations}) > 1:
        raise Refused(f"{where}: the combinations set different keys. Let each set the same keys in the same order.")
    halving = tuple(rule.halving)
    if list(halving) != sorted(set(halving)) or not all(0 < share < 1 for share in halving):
        raise Refused(f"{where}: halving={list(halving)} does not rise from above 0 to below 1, as in [0.1, 0.3].")
    return Choose(combinations, rule.by, sources, halving, rule.seeds, tuple(rule.budgets))


def _key(override: str) -> str:
    return override.split("=", 1)[0]


def _combined(settings: dict[str, Any], where: str) -> list[tuple[Combination, str]]:
    """Combine the values of all settings; a combination is the paper's if each of its values is."""
    options = []
    for key, values in settings.items():
        by_source = _by_source(values, f"{where}, {key}")
        options.append([(f"{key}={_written(value, f'{where}, {key}')}", source) for source, value in by_source])
    if math.prod(map(len, options)) > LONGEST:
        raise Refused(f"{where}: the values make more than {LONGEST} combinations. Name fewer values.")
    return [
        (tuple(override for override, _ in chosen), _source([source for _, source in chosen]))
        for chosen in itertools.product(*options)
    ]


def _listed(combinations: Any, where: str) -> list[tuple[Combination, str]]:
    by_source = _by_source(combinations, f"{where}, combinations")
    for _, overrides in by_source:
        if wrong := [override for override in overrides if "=" not in override or "." not in _key(override)]:
            raise Refused(f"{where}: {wrong[0]} is not an override of a setting, as in optimizer.lr=0.1.")
    return [(tuple(overrides), source) for source, overrides in by_source]


def _by_source(values: Any, where: str) -> list[tuple[str, Any]]:
    """Return source and value of each; a plain list is our own."""
    by_source = values if isinstance(values, dict) else {"own": values}
    if not by_source:
        raise Refused(f"{where}: it has no values. Write a list, as in [0.1, 0.01].")
    if not set(by_source) <= set(SOURCES):
        wrong = next(iter(set(by_source) - set(SOURCES)))
        raise Refused(f"{where}: the source {wrong!r} is unknown. Write {listing(list(SOURCES))}, each with a list.")
    if not all(isinstance(entries, Sequence) and not isinstance(entries, str) for entries in by_source.values()):
        raise Refused(f"{where}: it is not a list of values. Write one, as in [0.1, 0.01].")
    return [(source, value) for source, entries in by_source.items() for value in entries]


def _written(value: Any, where: str) -> str:
    """Return a value as an override has it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str) or PLAIN[float](value):
        return str(value)
    raise Refused(f"{where}: {value!r} is not a value of a setting.")


def _source(sources: Sequence[str]) -> str:
    return "paper" if set(sources) == {"paper"} else "own"
