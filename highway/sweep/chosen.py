"""Choose the settings of a row by the validation of its trials.

A trial is an ordinary run of the seed that chooses. When every trial has finished, diverged or failed, the best
validation wins; until then, and if all have failed, nothing is chosen. That follows from the files of the trials and
from nothing else, so two sweeps, a sweep that was killed, and a report agree. No test metric is read.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from highway.config.metrics import METRICS
from highway.ledger.directory import DONE, RunDirectory
from highway.sweep.choose import FIRST_SEED, Combination
from highway.sweep.table import Row, Table

ENDED = (*DONE, "failed")
Directories = Callable[[list[str]], list[RunDirectory]]  # overrides of a run -> where it may be, this machine first


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


def choice(table: Table, row: Row, budget: str, directories: Directories) -> Choice | None:
    """Return what the trials of a row choose, or what its file states; None if nothing is chosen at this budget."""
    if row.choose is None or not row.choose.at(budget):
        return None
    trials = []
    for combination in row.choose.combinations:
        tried = table.overrides(row.model_copy(update={"chosen": {budget: combination}}), budget, FIRST_SEED)
        trials.append(_trial(combination, directories(tried), row.choose.by, table.select))
    stated = row.chosen.get(budget)
    return Choice(tuple(trials), stated or best(trials, METRICS[row.choose.by].better))


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
