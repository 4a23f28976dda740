"""Settings that validation chooses: the key `choose` of a table file, or of a row of it.

    choose:
      optimizer.lr: {paper: [0.00005, 0.0005, 0.000005]}     values and their source: paper, own, or both
      model.dropout: [0.1, 0.2]                              a plain list is our own; two keys are combined
      by: valid_nll
      budgets: [paper]          at the other budgets, and until something is chosen, the first combination counts

A row may state what was chosen before, as in `chosen: {paper: [optimizer.lr=0.0005]}`; then no trial is trained.

A trial is an ordinary run of the first seed. When every trial has finished, diverged or failed, the best validation
wins; until then, and if all have failed, nothing is chosen. That follows from the files of the trials alone, so two
sweeps, a sweep that was killed, and a report agree. No test metric is read.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from highway.cards.metrics import METRICS
from highway.errors import as_typed, closest, counted, listing
from highway.keys.schema import Written, key, unlike
from highway.ledger.directory import DONE, RunDirectory

SOURCES = ("paper", "own")
LONGEST = 64  # combinations of a row
FIRST_SEED = 1  # the seed that chooses for all

Combination = list[str]  # overrides
ENDED = (*DONE, "failed")
Directories = Callable[[Combination], Sequence[RunDirectory]]  # of a trial: where it may be, this machine first


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
    """The settings that are tried for a row, and the metric that chooses among their combinations.

    A trial is an ordinary run with seed 1. When all trials have ended, the best by validation wins, and the other seeds
    are trained with its values. To repeat a choice, type its values: `seeds=1 optimizer.lr=0.1,0.3 rerun=true`. A grid
    names its keys on the command line: `choose=optimizer.lr`.
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, Annotated[list[tuple[str, str]], BeforeValidator(_values)]] = Field(init=False)

    by: str = key(..., "The metric of the validation split that decides.", options=_by_validation)
    budgets: list[str] = key([], "The budgets at which validation chooses, one trial a combination; empty: at all.")

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


@dataclass(frozen=True)
class Trial:
    """A run with one combination of the settings that are chosen."""

    combination: Combination
    directory: RunDirectory
    status: str
    value: float | None  # its validation; None unless it has finished

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def setting(self) -> str:
        """The values of its settings without the names of their keys."""
        return " ".join(override.split("=", 1)[1] for override in self.combination)


@dataclass(frozen=True)
class Choice:
    """The trials of a row, and the combination that is chosen; None until every trial has ended."""

    trials: tuple[Trial, ...]
    chosen: Combination | None

    @property
    def winner(self) -> Trial | None:
        return next((trial for trial in self.trials if trial.combination == self.chosen), None)


def choice(rule: Choose, select: str, directories: Directories, stated: Combination | None = None) -> Choice:
    """Return the trials of a row, and what they choose unless it is stated; select: the checkpoint that counts."""
    trials = tuple(_trial(tried, directories(tried), rule.by, select) for tried in rule.combinations)
    return Choice(trials, stated or best(trials, METRICS[rule.by].better))


def best(trials: Sequence[Trial], better: str) -> Combination | None:
    """Return the combination with the best validation, the first of equal ones.

    None until every trial has ended, and if all have failed.
    """
    if not all(trial.ended for trial in trials) or all(trial.status == "failed" for trial in trials):
        return None
    sign = -1 if better == "higher" else 1

    def rank(trial: Trial) -> float:
        if trial.value is None or not math.isfinite(trial.value):
            return math.inf
        return sign * trial.value

    return min(trials, key=lambda trial: (trial.status == "failed", rank(trial))).combination


def _trial(combination: Combination, directories: Sequence[RunDirectory], by: str, select: str) -> Trial:
    """Read a trial from the first directory in which it has ended, or else begun."""
    statuses = {directory: directory.status for directory in directories}
    directory = max(directories, key=lambda directory: (statuses[directory] in ENDED, statuses[directory] != "waiting"))
    status, result = statuses[directory], directory.result()
    value = result["metrics"].get(by, {}).get(select) if result and status == "finished" else None
    return Trial(combination, directory, status, value)
