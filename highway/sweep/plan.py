"""The runs that a command line describes, each composed and checked; and the reports that show them."""

import hashlib
import itertools
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hydra.core.override_parser.types import Override

from highway.config.compose import experiment as composed
from highway.config.experiment import Experiment
from highway.errors import Refused
from highway.ledger.directory import DONE, RunDirectory, roots
from highway.ledger.identity import identified, names_run
from highway.sweep import grid
from highway.sweep.choose import FIRST_SEED, key_of
from highway.sweep.choose import choice as choice_of
from highway.sweep.launcher import Planned, search_path
from highway.sweep.reading import load_table, parse_table
from highway.sweep.shell import command_line, quoted
from highway.sweep.table import ReportRequest, Row, Table, last_on_each_key
from highway.sweep.typed import every_combination, is_true, seeds_of, values_of
from highway.sweep.views import differences, link_view

log = logging.getLogger("highway")


class Planner:
    """Plans each stage of a sweep: `sweeper` has the configuration that runs are composed from."""

    def __init__(self, sweeper: Any, foresees: bool, retry_failed: bool) -> None:
        self.sweeper = sweeper
        self.foresees = foresees  # plan=true: trials and rows are planned at once, and nothing is written
        self.retry_failed = retry_failed
        self.trained: set[RunDirectory] = set()  # in the stages before
        self.choosing: list[str] = []  # rows whose settings are still to be chosen
        self.then: list[Callable[[], None]] = []  # writes, postponed until nothing can be refused any more
        self.directories: dict[tuple[str, ...], list[RunDirectory]] = {}

    def plan(self, overrides: dict[str, Override]) -> tuple[list[Planned], list[ReportRequest]]:
        """Compose and check all runs that these overrides describe; return them, and the reports that show them."""
        self.choosing, self.then = [], []
        tables, seeds, extra_rows, rows, name, choose = (
            overrides.pop(key, None) for key in ("table", "seeds", "extra_rows", "rows", "name", "choose")
        )
        title, columns = overrides.pop("title", None), values_of(overrides.pop("columns", None))
        if tables is None or tables.value() is None:
            for key, override in (("seeds", seeds), ("extra_rows", extra_rows), ("rows", rows)):
                if override is not None:
                    hint = "For a grid, write seed=1,2" if key == "seeds" else "It chooses among the rows of a table"
                    raise Refused(f"{key}= needs table=. {hint}.")
            heads = {"title": _words(title), "columns": columns}
            return self._of_grid(overrides, values_of(name), values_of(choose), heads)
        if choose is not None:
            raise Refused("choose= is for a grid. A table's file says what is chosen, under its key `choose`.")
        if title or columns:
            raise Refused("title= and columns= describe a grid. A table's file has its caption and its columns.")
        if values_of(name) not in ([], ["null"]):
            raise Refused("name= names a grid, but table= is given. Leave name= out.")
        if "seed" in overrides:
            raise Refused("seed= is for a single run or a grid. Choose the seeds of a table with seeds=1,2,3.")
        budgets = values_of(overrides.pop("budget", None)) or ["paper"]
        if timed := next((table for table in map(load_table, values_of(tables)) if table.timed), None):
            raise Refused(f"{timed.id} is measured, not trained. Type {timed.time_command(budgets[0])}.")
        combinations = [
            (table, row, budget, seed)
            for table, budget in itertools.product(map(load_table, values_of(tables)), budgets)
            for row, seed in itertools.product(_rows(table, budget, rows, extra_rows), seeds_of(seeds))
        ]
        return self._of_rows(combinations, overrides)

    def _of_rows(
        self, combinations: Iterable[tuple[Table, Row, str, int]], overrides: dict[str, Override]
    ) -> tuple[list[Planned], list[ReportRequest]]:
        """Plan rows of tables, each with every combination of the overrides."""
        plan: list[Planned] = []
        reported: dict[tuple[str, str, tuple[str, ...]], ReportRequest] = {}
        for table, written, budget, seed in combinations:
            for _, choice in every_combination(overrides.values()):
                row, trials = self._chosen(table, written, budget, choice)
                plan += trials
                if trials and not self.foresees:
                    continue  # the row itself follows when its settings are chosen
                added = self._added(table, row, budget, seed, choice)
                settings = (
                    tuple(override for override in choice if names_run(override.split("=", 1)[0])) if added else ()
                )
                planned = self._row(table, row, budget, seed, added, choice)
                key = (table.id, budget, settings)
                if settings and key not in reported and _is_result(planned.directory):
                    self.then.append(partial(grid.keep_overrides, *key, planned.directory.path.parents[2]))
                reported[key] = (table, budget, settings)
                self.then.append(partial(self._link, planned, table, budget, row, added))
                plan.append(planned)
        extended = {
            key[:2] for key in reported if key[2]
        }  # reports with overrides also show the table's unchanged rows
        return plan, [entry for key, entry in reported.items() if key[2] or key[:2] not in extended]

    def _chosen(self, table: Table, row: Row, budget: str, choice: list[str]) -> tuple[Row, list[Planned]]:
        """Return a row with its chosen settings; or, until they are chosen, the trials to train first."""
        if row.choose and any(key_of(override) in row.choose.keys for override in choice):
            row = row.model_copy(update={"choose": None})  # typed on the command line
        if budget in row.chosen:
            return row, []
        found = choice_of(table, row, budget, lambda overrides: self._directories([*overrides, *choice]))
        if found is None:
            return row, []
        missing = [trial for trial in found.trials if self.is_missing(trial.directory, trial.status)]
        if found.chosen and not missing:
            return row.model_copy(update={"chosen": {budget: found.chosen}}), []
        self.choosing.append(f"{table.id} {row.id}")
        trials = []
        for trial in missing or found.trials:  # none is missing if all have failed: the sweep ends by saying so
            candidate = row.model_copy(update={"chosen": {budget: trial.combination}})
            tried = " ".join(trial.combination)
            added = f"{tried} {self._added(table, candidate, budget, FIRST_SEED, choice)}".strip()
            planned = self._row(table, candidate, budget, FIRST_SEED, added, choice)
            self.then.append(partial(self._link, planned, table, budget, row, added))
            trials.append(planned)
        return row, trials

    def is_missing(self, directory: RunDirectory, status: str) -> bool:
        """Return True if a run is to be trained in this stage."""
        if status == "failed":
            return self.retry_failed and directory not in self.trained
        return status not in DONE

    def _directories(self, overrides: list[str]) -> list[RunDirectory]:
        """Return the directories in which the run of these overrides may lie: here, then among the published."""
        key = tuple(last_on_each_key(overrides))
        if key not in self.directories:  # asked again for each seed
            here = RunDirectory.of(self._composed(key))
            published = roots(here.path.parents[2])[1:] if _is_result(here) else []
            self.directories[key] = [here, *(RunDirectory(root / here.id) for root in published)]
        return self.directories[key]

    def _composed(self, overrides: Sequence[str]) -> Experiment:
        """Compose and check a run, with the folders of options that the sweep has."""
        return composed([*search_path(self.sweeper.config), *overrides])

    def _of_grid(
        self, overrides: dict[str, Override], name: list[str], choose: list[str], heads: dict[str, Any]
    ) -> tuple[list[Planned], list[ReportRequest]]:
        combinations = [(label or "run", choice) for label, choice in every_combination(overrides.values())]
        experiments = [self._composed(choice) for _, choice in combinations]
        plan = [
            self._described(experiment, label, choice)
            for experiment, (label, choice) in zip(experiments, combinations, strict=True)
        ]
        if (self.foresees and not choose) or not all(_is_result(planned.directory) for planned in plan):
            return plan, []
        choices = {
            override.get_key_element().removeprefix("++"): values_of(override) for override in overrides.values()
        }
        for override in search_path(self.sweeper.config):
            key, _, value = override.partition("=")
            choices[key] = [value]
        command = command_line([f"{key}={','.join(values)}" for key, values in choices.items()])
        if len(name) > 1:
            raise Refused(f"name={','.join(name)} gives several names, but a grid has one. Write name={name[0]}.")
        given_name = name[0] if name and name[0] != "null" else None
        typed = command.replace("highway train", "highway train -m", 1)
        described = grid.as_table(given_name, typed, choices, experiments, choose, **heads)
        self.then.append(partial(grid.keep, described, experiments[0].outputs_dir))
        table = parse_table(described)
        if choose:
            seeds = [int(seed) for seed in choices.get("seed", ["1"])]
            others = {key: typed for key, typed in overrides.items() if not names_run(key)}  # of no table
            return self._of_rows(itertools.product([table], table.rows, table.budgets, seeds), others)
        rows = {tuple(row.overrides): row for row in table.rows}
        varying = {override.split("=", 1)[0] for override in table.rows[0].overrides}
        for number, (experiment, (_, choice)) in enumerate(zip(experiments, combinations, strict=True)):
            row = rows[tuple(override for override in choice if override.split("=", 1)[0] in varying)]
            plan[number] = _of_row(plan[number], table, row, choice)
            self.then.append(partial(self._link, plan[number], table, experiment.budget, row, ""))
        return plan, [(table, budget, ()) for budget in table.budgets]

    def _added(self, table: Table, row: Row, budget: str, seed: int, choice: list[str]) -> str:
        """Return the overrides that make a row a different run; "" if the run stays the same."""
        changing = [override for override in choice if names_run(override.split("=", 1)[0])]
        if not changing:
            return ""
        base = table.overrides(row, budget, seed)
        before, after = (self._composed(words) for words in (base, last_on_each_key([*base, *changing])))
        same = identified(before) == identified(after)
        return "" if same else " ".join(changing)

    def _row(self, table: Table, row: Row, budget: str, seed: int, added: str, choice: list[str]) -> Planned:
        """Plan a row of a table; overrides of the command line win over those of the table."""
        overrides = last_on_each_key([*table.overrides(row, budget, seed), *choice])
        name = f"{row.id} seed {seed} {added}".strip()
        return self._described(self._composed(overrides), f"{table.id} {name}", overrides, table.id, name)

    def _described(
        self, experiment: Experiment, label: str, overrides: Sequence[str], group: str = "grid", run: str | None = None
    ) -> Planned:
        mirror = [f"logger.group={quoted(group)}", f"logger.run={quoted(run or f'{label} seed {experiment.seed}')}"]
        directory, trainer = RunDirectory.of(experiment), experiment.trainer
        overrides = (*overrides, *mirror)
        needs = (trainer.accelerator, trainer.devices)
        details: dict[str, Any] = {"nodes": trainer.nodes, "experiment": experiment}
        return Planned(label, overrides, directory, *needs, directory.status, **details)

    def _link(self, planned: Planned, table: Table, budget: str, row: Row, added: str) -> None:
        """Link a row to its run; if the row was linked to another run, log what has changed."""
        if not _is_result(planned.directory):
            return
        replaced = link_view(planned.directory, table.id, budget, _view_of(row, added))
        if replaced is not None:
            changed = "; ".join(differences(replaced, self._composed(planned.overrides))) or "another revision"
            log.info("%s: the recipe has changed since the run in %s: %s.", planned.label, replaced.path, changed)


def _is_result(directory: RunDirectory) -> bool:
    """Return True unless debug=... has moved the run out of the results."""
    return directory.path.parents[1].name == "cells"


def _words(title: Override | None) -> str:
    """Return a title as typed; with a comma it looks like a list of values."""
    if title is None:
        return ""
    return (title.input_line or "").partition("=")[2] if title.is_sweep_override() else str(title.value())


def _of_row(planned: Planned, table: Table, row: Row, choice: Sequence[str]) -> Planned:
    """Name a run of a grid as the grid's table names its row."""
    seed = next((override for override in choice if override.startswith("seed=")), "seed=1").replace("=", " ")
    mirror = (f"logger.group={quoted(table.id)}", f"logger.run={quoted(f'{row.id} {seed}')}")
    return replace(planned, overrides=(*planned.overrides[: -len(mirror)], *mirror))


def _view_of(row: Row, added: str) -> str:
    """Name the view of a row; a hash ends a name that would be too long for a file system."""
    name = ",".join([row.id, *added.split()])
    if len(name) <= grid.LONGEST_NAME:
        return name
    return f"{row.id[: grid.LONGEST_NAME]},{hashlib.sha256((added or row.id).encode()).hexdigest()[:8]}"


def _rows(table: Table, budget: str, rows: Override | None, extra_rows: Override | None) -> list[Row]:
    if values_of(rows) not in ([], ["null"]):
        return [table.row(row_id) for row_id in values_of(rows)]
    return [row for row in table.at(budget) if is_true(extra_rows) or not row.extra]
