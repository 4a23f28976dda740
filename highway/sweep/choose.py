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
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from highway.config.keys import Written, key, unlike
from highway.config.metrics import METRICS
from highway.errors import as_typed, closest, counted, listing

SOURCES = ("paper", "own")
LONGEST = 64  # combinations of a row
FIRST_SEED = 1  # the seed that chooses for all

Combination = list[str]  # overrides


def _by_validation() -> list[str]:
    return [name for name, metric in METRICS.items() if metric.split == "valid"]


def _values(given: Any) -> list[tuple[str, str]]:
    """Return each value of a setting, as an override has it, and its source; a plain list is our own."""
    by_source = given if isinstance(given, dict) else {"own": given}
    if not set(by_source) <= set(SOURCES) or not all(isinstance(values, list) for values in by_source.values()):
        raise unlike(
            "a list of values, as in [0.1, 0.01], or a list for each source, as in {paper: [0.1], own: [0.01]}", given
        )
    return [(_as_in_override(value), source) for source, values in by_source.items() for value in values]


def _as_in_override(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return as_typed(value)
    if isinstance(value, str | int | float):
        return str(value)
    raise unlike("a text, a number, true, false or null", value)


class Choose(Written):
    """The settings that are tried for a row, and the metric that chooses among their combinations."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, Annotated[list[tuple[str, str]], BeforeValidator(_values)]] = Field(init=False)

    by: str = key(..., "a metric of the validation split", options=_by_validation)
    budgets: list[str] = key([], "where it is chosen; empty: at all")

    def check(self) -> None:
        if unknown := [name for name in self.__pydantic_extra__ if "." not in name]:
            known = list(type(self).model_fields)
            raise ValueError(
                f"{unknown[0]} is not a key.{closest(unknown[0], known)} Available: {listing(known)}, and settings, "
                "which have a dot in their names, as in optimizer.lr."
            )
        count = math.prod(map(len, self.__pydantic_extra__.values()))
        if count > LONGEST:
            raise ValueError(f"the values make more than {LONGEST} combinations. Name fewer values.")
        if count < 2:
            verb = "leaves" if count == 1 else "leave"
            raise ValueError(f"{counted(count, 'combination')} {verb} nothing to choose. Name two values or more.")
        combinations = self.combinations
        if twice := [each for each in combinations if combinations.count(each) > 1]:
            raise ValueError(f"{' '.join(twice[0])} is given twice. Leave it out once.")

    @property
    def keys(self) -> list[str]:
        return list(self.__pydantic_extra__)

    @property
    def combinations(self) -> list[Combination]:
        return [
            [f"{key}={value}" for key, (value, _) in zip(self.keys, combined, strict=True)]
            for combined in itertools.product(*self.__pydantic_extra__.values())
        ]

    @property
    def sources(self) -> list[str]:
        """The source of each combination, one of SOURCES: `paper` if all its values are the paper's."""
        return [
            "paper" if all(source == "paper" for _, source in combined) else "own"
            for combined in itertools.product(*self.__pydantic_extra__.values())
        ]

    @property
    def rule(self) -> str:
        """The rule in a sentence, with the combinations and their sources."""
        tried = (f"{' '.join(each)} ({source})" for each, source in zip(self.combinations, self.sources, strict=True))
        return f"by {METRICS[self.by].name} of seed {FIRST_SEED}, among {listing(list(tried))}"

    def at(self, budget: str) -> bool:
        return not self.budgets or budget in self.budgets


def key_of(override: str) -> str:
    return override.split("=", 1)[0]
