"""Decide which settings validation has chosen, and which trials are still to be trained, and how far.

A decision follows from the validation values of the trials on disk and from nothing else, so that two sweeps, a sweep
that was killed, and a report agree. No test metric is read.

At each rung, the trials that are left are ranked by their validation up to that share of their steps, and the better
half, rounded up, goes on. At the end, the best of those that are left is chosen. Equal values rank in the order of the
table. A diverged trial ranks last from where it diverged. A failed trial, whose value is unknown, lets nothing be
decided at its rung.
"""

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from highway.config.metrics import METRICS
from highway.config.yaml_file import read_yaml
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.sweep.choose import Choose, Combination
from highway.sweep.table import Row, Table

WHOLE = 1.0  # the share of a run at its end
ROUNDING = 1e-6  # of the epochs in a curve
Folders = Callable[[list[str]], list[Path]]  # overrides of a run -> the directories in which it may lie


@dataclass(frozen=True)
class Trial:
    """A trial and its validation: at each rung and at its end a value, infinity if it diverged, None if not reached."""

    combination: Combination
    directory: Path
    status: str
    values: tuple[float | None, ...]
    elsewhere: bool = False  # True for a published trial

    @property
    def last(self) -> float | None:
        """The last value that is known."""
        return next((value for value in reversed(self.values) if value is not None), None)


@dataclass(frozen=True)
class Decision:
    """The outcome so far of comparing the trials of a row."""

    trials: tuple[Trial, ...]
    left: tuple[Trial, ...]  # those that no rung has dropped
    until: float  # the share to which `left` has to be trained next; infinite if nothing is to be trained
    shares: tuple[float, ...] = (WHOLE,)  # rungs, and the end

    @property
    def chosen(self) -> Trial | None:
        return self.left[0] if self.until > WHOLE else None

    @property
    def compares(self) -> bool:
        """True if two or more trials have a value."""
        return sum(trial.last is not None for trial in self.trials) > 1

    @property
    def missing(self) -> tuple[Trial, ...]:
        """The trials to train next."""
        return () if self.chosen else tuple(trial for trial in self.left if self.value(trial, self.until) is None)

    @property
    def dropped(self) -> tuple[Trial, ...]:
        return tuple(trial for trial in self.trials if trial not in self.left)

    def value(self, trial: Trial, share: float) -> float | None:
        """Return the value of a trial at a share of its steps; None if it has not reached it."""
        return trial.values[self.shares.index(share)]


def decide(trials: Sequence[Trial], shares: Sequence[float], better: str) -> Decision:
    """Rank the trials at each share; the last share is that of the whole run."""
    left, direction = list(trials), -1 if better == "higher" else 1
    for number, share in enumerate(shares):
        values = {trial: trial.values[number] for trial in left}
        if any(value is None for value in values.values()):
            return Decision(tuple(trials), tuple(left), share, tuple(shares))
        left.sort(key=lambda trial: _rank(trial.values[number], direction))  # stable
        kept = 1 if share == WHOLE else math.ceil(len(left) / 2)
        alive = sum(math.isfinite(trial.values[number] or 0) for trial in left)
        left = left[: max(min(kept, alive), 1)]
        left.sort(key=trials.index)
    return Decision(tuple(trials), tuple(left), math.inf, tuple(shares))


def _rank(value: float | None, direction: int) -> float:
    assert value is not None
    return value * direction if math.isfinite(value) else math.inf


def forecast(found: Decision) -> list[tuple[Trial, float]]:
    """Return each trial that is left with the share to which it will be trained if the first ones are the best."""
    shares, left = [share for share in found.shares if share >= found.until], len(found.left)
    ends = []
    for share in shares[:-1]:
        going_on = math.ceil(left / 2)
        ends += [share] * (left - going_on)
        left = going_on
    return list(zip(found.left, [WHOLE] * left + ends[::-1], strict=True))


def decision(table: Table, row: Row, budget: str, seed: int, folders: Folders) -> Decision | None:
    """Return the outcome of a row's trials for a run of this seed; None if nothing is to be chosen at this budget."""
    choose = row.choose
    if choose is None or not choose.at(budget):
        return None
    shares, chooser = (*choose.halving, WHOLE), choose.chooser(seed)
    trials = []
    for combination in choose.combinations:
        overrides = table.overrides(replace(row, chosen={chooser: combination}), budget, chooser)
        trials.append(_trial(combination, folders(overrides), choose, table.select, shares))
    return decide(trials, shares, METRICS[choose.by].better)


def _trial(
    combination: Combination,
    folders: Sequence[Path],
    choose: Choose,
    select: str,
    shares: tuple[float, ...],
) -> Trial:
    """Read a trial from the directory in which it has come furthest, the first of those that are equal."""
    trials = []
    for folder in folders:
        directory = RunDirectory(folder)
        result = directory.result()
        status = directory.status
        values = _values(directory, result, status, choose.by, select, shares)
        trials.append(Trial(combination, folder, status, values, folder != folders[0]))
    return max(trials, key=lambda trial: sum(value is not None for value in trial.values))


def _values(
    directory: RunDirectory, result: dict[str, Any] | None, status: str, by: str, select: str, shares: tuple[float, ...]
) -> tuple[float | None, ...]:
    """Return the value of a run at each share."""
    at_end = None
    if result is not None and status == "finished":
        at_end = result["metrics"].get(by, {}).get(select, math.inf)
    curve = _validations(directory, METRICS[by].kind) if len(shares) > 1 else []
    values = [*(_value_at(share, curve, by, select) for share in shares[:-1]), at_end]
    if status == "diverged":
        return tuple(math.inf if value is None else value for value in values)
    return tuple(values)


def _value_at(share: float, curve: Sequence[tuple[float, float]], by: str, select: str) -> float | None:
    """Return the value at the first validation that reaches a share of the run; None if none has reached it."""
    end = next((number for number, (at, _) in enumerate(curve) if at >= share - ROUNDING), None)
    if end is None:
        return None
    values = [value for _, value in curve[: end + 1]]
    if select == "last":
        return values[-1]
    return max(values) if METRICS[by].better == "higher" else min(values)


def _validations(directory: RunDirectory, kind: str) -> list[tuple[float, float]]:
    """Return share of the steps and value of each validation in curves.csv; empty if it cannot be read."""
    try:
        trainer = read_yaml(directory.config)["trainer"]
        steps, epochs = trainer["max_steps"] or math.inf, trainer["max_epochs"]
        with open(directory.curves, newline="") as file:
            rows = csv.DictReader(file)
            return [
                (max(float(row["step"]) / steps, float(row["epoch"]) / epochs), float(row["value"]))
                for row in rows
                if (row["split"], row["metric"]) == ("valid", kind) and row["value"]
            ]
    except (OSError, ValueError, KeyError, TypeError, csv.Error, Refused):
        return []
