"""Plan a sweep: the runs that a command line describes, those of them that are missing, and what shows them.

What was typed becomes rows of tables; a grid becomes a table, each combination of its values a row. Settings that
validation chooses are put in, or else their trials are planned first. Each row is composed and checked, its
configuration names the directory of its run, and the files there tell whether the run is missing.
"""

import itertools
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from highway.config.compose import experiment
from highway.config.experiment import Experiment
from highway.errors import Held, Refused, counted, listing
from highway.keys.schema import dotted
from highway.keys.yaml_file import read_yaml
from highway.ledger.directory import DONE, RunDirectory, is_published, roots
from highway.ledger.identity import PARTS, configuration, identified, is_unread, names_run
from highway.sweep.planned_run import Planned
from highway.tables import grid
from highway.tables.choose import FIRST_SEED, Choice, choice
from highway.tables.reading import load_table, parse_table
from highway.tables.table import ReportRequest, Row, Table
from highway.tables.typed import Typed, every_combination, key_of, quoted

log = logging.getLogger("highway")
MOST_CHANGES = 3  # settings that a message names
Choices = Mapping[str, Sequence[str]]  # key -> its values


@dataclass(frozen=True)
class Variant:
    """A row of a table at a budget, with the overrides of the command line that it gets."""

    table: Table
    budget: str
    row: Row

    def overrides(self, seed: int) -> list[str]:
        return self.table.overrides(self.row, self.budget, seed)

    def choosing(self, settings: list[str]) -> "Variant":
        """Return this row with chosen settings."""
        return replace(self, row=self.row.choosing(self.budget, settings))


class Planner:
    """Plans each stage of a sweep. search_path: the override that names folders of options, or nothing."""

    def __init__(self, typed: Typed, search_path: Sequence[str]) -> None:
        self.typed, self.search_path = typed, search_path
        self.trained: set[RunDirectory] = set()  # in earlier stages
        self._compositions: dict[tuple[str, ...], Experiment] = {}

    def plan(self) -> "Plan":
        """Plan the next stage: the runs of rows whose settings are known, and the trials of the others."""
        plan = Plan()
        for variant in self._variants(plan):
            choice = self._choice(plan, variant)
            if choice and self._is_open(choice):
                self._add_trials(plan, variant, choice)
                if not self.typed.plan:  # plan=true foresees trials and row together
                    continue
            elif choice and choice.chosen:
                variant = variant.choosing(choice.chosen)
            self._add_row(plan, variant)
        if not plan.runs:
            raise Refused("Nothing to train: no row is at this budget. Choose another, or add extra_rows=true.")
        self._refuse_unread(plan.runs)
        plan.to_train = [run for run in plan.runs if self._is_again(run) or self._is_missing(run.directory, run.before)]
        return plan

    def _variants(self, plan: "Plan") -> Iterator[Variant]:
        """Yield each row to train, at each budget, with each combination of the overrides that all rows get."""
        tables, for_all_rows = self._tables(plan)
        combinations = every_combination(for_all_rows)
        for table, budget in itertools.product(tables, self.typed.budgets):
            named = [table.row(name) for name in self.typed.rows]  # also extra rows, and those of other budgets
            usual = [row for row in table.at(budget) if self.typed.extra_rows or not row.extra]
            for row, added in itertools.product(named or usual, combinations):
                yield Variant(table, budget, row.adding(added))

    def _tables(self, plan: "Plan") -> tuple[list[Table], Choices]:
        """Return the tables to train, and the overrides that all of their rows get."""
        typed = self.typed
        if typed.tables:
            tables = [load_table(name) for name in typed.tables]
            if timed := next((table for table in tables if table.timed), None):
                raise Refused(f"{timed.id} is measured, not trained. Type {timed.time_command(typed.budgets[0])}.")
            return tables, _without(typed.overrides, ("budget",))
        first = self._experiment(  # finds most mistakes, and knows the folder of the outputs
            [f"{key}={values[0]}" for key, values in typed.overrides.items()], FIRST_SEED
        )
        content = grid.as_table(typed, self.search_path)
        if not first.debug.scratch:
            plan.saves.append(partial(grid.keep, content, first.outputs_dir))
        table = parse_table(content)
        in_table = {key_of(override) for row in table.rows for override in (*table.recipe, *row.overrides)}
        return [table], _without(typed.overrides, (*in_table, *typed.choose, "seed", "budget"))

    def _choice(self, plan: "Plan", variant: Variant) -> Choice | None:
        """Return the trials of a row and what they choose; None if it has no settings to choose."""
        row, budget = variant.row, variant.budget
        if row.choose is None or not row.choose.at(budget) or budget in row.chosen:
            return None
        found = choice(row.choose, variant.table.select, lambda tried: self._directories(variant.choosing(tried)))
        plan.trials |= {trial.directory for trial in found.trials}
        return found

    def _is_open(self, found: Choice) -> bool:
        """Return True if trials are still to be trained, or if all have failed."""
        return found.chosen is None or any(self._is_missing(trial.directory, trial.status) for trial in found.trials)

    def _add_trials(self, plan: "Plan", variant: Variant, found: Choice) -> None:
        """Plan the trials that are missing; if all have failed, plan all, so that the sweep ends by naming them."""
        plan.choosing.append(f"{variant.table.id} {variant.row.id}")
        missing = [trial for trial in found.trials if self._is_missing(trial.directory, trial.status)]
        for trial in missing or found.trials:
            tried = variant.choosing(trial.combination)
            added = [*trial.combination, *self._added(tried)]
            plan.add(variant, added, [self._planned(tried, added, FIRST_SEED)])

    def _add_row(self, plan: "Plan", variant: Variant) -> None:
        """Plan the runs of a row, and the report of its table."""
        added = self._added(variant)
        plan.add(variant, added, [self._planned(variant, added, seed) for seed in self.typed.seeds])
        plan.request_report(variant, added)

    def _added(self, variant: Variant) -> list[str]:
        """Return the typed overrides that go into a row's name: those that may change a run, if they do change it."""
        candidates = [override for override in variant.row.added if names_run(key_of(override))]
        if not candidates:
            return []
        plain = replace(variant, row=variant.row.adding(()))
        before, after = (self._experiment(each.overrides(FIRST_SEED), FIRST_SEED) for each in (plain, variant))
        return candidates if identified(before) != identified(after) else []

    def _planned(self, variant: Variant, added: list[str], seed: int) -> Planned:
        """Compose, check and name a run."""
        overrides = variant.overrides(seed)
        composed = self._experiment(overrides, seed)
        budget = [f"budget={variant.budget}"] if len(self.typed.budgets) > 1 else []
        name = " ".join([variant.row.id, *added, *budget, f"seed {seed}"])
        mirror = (f"logger.group={quoted(variant.table.id)}", f"logger.run={quoted(name)}")
        directory = RunDirectory.of(composed)
        label = f"{variant.table.id} {name}"
        return Planned(label, (*overrides, *mirror), directory, composed, before=directory.status)

    def _experiment(self, overrides: Sequence[str], seed: int) -> Experiment:
        """Compose and check a run; its seeds share a composition."""
        recipe = tuple(override for override in overrides if key_of(override) != "seed")
        if recipe not in self._compositions:
            self._compositions[recipe] = experiment([*self.search_path, *recipe])
        return self._compositions[recipe].model_copy(update={"seed": seed})

    def _directories(self, trial: Variant) -> list[RunDirectory]:
        """Return the directories in which a trial may lie: here, then among the published."""
        here = RunDirectory.of(self._experiment(trial.overrides(FIRST_SEED), FIRST_SEED))
        published = roots(here.path.parents[2])[1:] if _is_result(here) else []
        return [here, *(RunDirectory(root / here.id) for root in published)]

    def _is_missing(self, directory: RunDirectory, status: str) -> bool:
        """Return True if a run has not ended yet, or has failed and is to be tried again."""
        if status == "failed":
            return self.typed.retry_failed and directory not in self.trained
        return status not in DONE

    def _is_again(self, run: Planned) -> bool:
        """Return True if a run that is done, finished or diverged, is to be trained again."""
        return self.typed.rerun and run.before in DONE and run.directory not in self.trained

    def _refuse_unread(self, runs: Iterable[Planned]) -> None:
        """Refuse a key that was typed, and that no run of the sweep reads."""
        experiments = [run.experiment for run in runs]
        for key, values in self.typed.overrides.items():
            if all(is_unread(experiment, key) for experiment in experiments):
                typed = f"{key}={','.join(values)}"
                raise Refused(f"{typed} changes nothing: no run of this sweep reads it. Leave it out.")


@dataclass
class Plan:
    """The runs of one stage of a sweep, each once, and what shows them."""

    to_train: list[Planned] = field(default_factory=list)
    choosing: list[str] = field(default_factory=list)  # rows whose settings are not chosen yet
    trials: set[RunDirectory] = field(default_factory=set)  # of all rows that choose settings
    saves: list[Callable[[], None]] = field(default_factory=list)  # for when nothing can be refused any more
    _runs: dict[RunDirectory, Planned] = field(default_factory=dict)
    _links: dict[Path, Planned] = field(default_factory=dict)
    _reports: dict[tuple[str, str, tuple[str, ...]], ReportRequest] = field(default_factory=dict)

    @property
    def runs(self) -> list[Planned]:
        """All runs, each once."""
        return list(self._runs.values())

    @property
    def again(self) -> list[Planned]:
        """The runs to train that are done, whose records are set aside first."""
        return [run for run in self.to_train if run.before in DONE]

    @property
    def outputs(self) -> Path:
        """The folder of all results."""
        return next(iter(self._runs)).path.parents[2]

    @property
    def reports(self) -> list[ReportRequest]:
        """The reports to show. One with overrides has all rows of its table, so the plain one is then left out."""
        extended = {key[:2] for key in self._reports if key[2]}
        return [request for key, request in self._reports.items() if key[2] or key[:2] not in extended]

    @property
    def summary(self) -> str:
        """One line that counts the runs: finished, ended otherwise and not to be repeated, and to train."""
        ended = Counter(run.before for run in {*self.runs} - {*self.to_train})
        finished = ended.pop("finished", 0)
        others = "".join(f"{count} {status} already, " for status, count in sorted(ended.items()))
        sentences = [
            f"{counted(len(self.runs), 'run')}: {finished} finished already, {others}{len(self.to_train)} to train."
        ]
        if self.choosing:
            sentences.append(f"They are trials, which choose settings of {listing([*dict.fromkeys(self.choosing)])}.")
        elif self.trials:
            sentences.append(f"Their settings were chosen by {counted(len(self.trials), 'trial')}.")
        return " ".join([*sentences, *published(self.to_train)])

    def add(self, variant: Variant, added: list[str], runs: Iterable[Planned]) -> None:
        """Add runs of a row, and the links to them: outputs/<table>/<budget>/<row>/seed<k>."""
        row = grid.folder_name(",".join([variant.row.id, *added]))
        for run in runs:
            self._runs[run.directory] = run
            if _is_result(run.directory):
                folder = self.outputs / variant.table.id / variant.budget / row
                self._links[folder / run.directory.path.name] = run

    def request_report(self, variant: Variant, added: list[str]) -> None:
        """Show the report of a row's table, with these overrides of the command line."""
        key = (variant.table.id, variant.budget, tuple(added))
        if _is_result(next(iter(self._runs))) and key not in self._reports:
            self._reports[key] = (variant.table, variant.budget, tuple(added))
            if added:
                self.saves.append(partial(grid.keep_overrides, *key, self.outputs))

    def write(self) -> None:
        """Set aside what is trained again, save what was typed for reports, and link rows to their runs."""
        for run in self.again:
            with suppress(Held), run.directory.leased():  # a run that still holds its lease has only just finished
                if run.directory.done:  # unless another sweep has set it aside meanwhile
                    run.directory.set_aside()
                    log.info("%s is trained again; its record is now in %s/earlier.", run.label, run.directory.path)
        self.to_train = [  # without those that could not be set aside, since another sweep trains them
            run for run in self.to_train if run.before not in DONE or not run.directory.done
        ]
        for save in self.saves:
            save()
        replaced = [(run, link.parent, _link(link, run.directory)) for link, run in self._links.items()]
        changed = [(run, row, earlier) for run, row, earlier in replaced if earlier]
        if changed:
            rows = {row for _, row, _ in changed}
            run, row, earlier = changed[0]
            log.info(
                "%s another configuration than before; %s: %s. The earlier runs stay in %s.",
                "1 row has" if len(rows) == 1 else f"{len(rows)} rows have",
                *(row.name, _changes(earlier, run), earlier.path.parents[1]),
            )


def published(runs: Iterable[Planned]) -> list[str]:
    """Return a sentence if the numbers of some of these runs are published, so that nobody waits days for them."""
    count = sum(is_published(run.directory) for run in runs)
    are, them = ("is", "it") if count == 1 else ("are", "them")
    return [f"{count} of these runs {are} published already: highway report shows {them}."] if count else []


def _without(overrides: Choices, keys: Iterable[str]) -> Choices:
    return {key: values for key, values in overrides.items() if key not in {*keys}}


def _is_result(directory: RunDirectory) -> bool:
    """Return True unless debug=... has moved the run out of the results."""
    return directory.path.parents[1].name == "cells"


def _link(link: Path, directory: RunDirectory) -> RunDirectory | None:
    """Link a row to its run; return the run to which the row was linked before, or None if it is the same or new."""
    target = os.path.relpath(directory.path, link.parent)
    before = os.readlink(link) if link.is_symlink() else None
    if before == target:
        return None
    directory.path.mkdir(parents=True, exist_ok=True)
    link.parent.mkdir(parents=True, exist_ok=True)
    new = link.with_name(f".{link.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    new.symlink_to(target)
    new.replace(link)
    return RunDirectory((link.parent / before).resolve()) if before else None


def _changes(earlier: RunDirectory, run: Planned) -> str:
    """Return what has changed in a recipe since an earlier run, as in `model.width 128 -> 64`."""
    if not earlier.config.exists():
        return "never started"
    old, new = read_yaml(earlier.config), configuration(run.experiment)
    before, after = (dotted({name: values.get(name, {}) for name in PARTS}) for values in (old, new))
    keys = [key for key, value in before.items() if value != after.get(key) and names_run(key)]
    changes = [f"{key} {before[key]} -> {after.get(key, 'absent')}" for key in keys]
    more = [f"and {len(changes) - MOST_CHANGES} more"] if len(changes) > MOST_CHANGES else []
    return "; ".join([*changes[:MOST_CHANGES], *more]) or "another revision"
