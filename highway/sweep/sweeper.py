"""Hydra's sweeper for tables and for grids: decides which runs are missing, and passes them to the launcher.

    -m table=highway_t1 budget=mini seeds=1,2,3        the table's rows x seeds
    -m gate=none,sdu_tanh layers=l1-3,all seed=1,2     every combination; name=mine names the grid
    fail_fast=true       stop the sweep at the first failure
    retry_failed=true    also train runs again that have failed
    rerun=true           train finished runs again, once; their records go to earlier/. To continue, leave it out
    plan=true            print the missing runs and their cost, and train nothing
    title='Do gates help?' columns=test_bpc,parameters   of a grid: the head of its report, and its columns
    choose=optimizer.lr  of a grid: choose these keys by validation, and report the best

Every run is composed and checked before the first one starts, so a mistake in the last row costs nothing.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from highway.config.experiment import Experiment
from highway.config.sections import SWEEP_ONLY
from highway.errors import Held, Refused
from highway.ledger.directory import DONE
from highway.ledger.identity import is_unread
from highway.sweep.accounts import summarise, to_do
from highway.sweep.choose import ENDED
from highway.sweep.launcher import Planned
from highway.sweep.plan import Planner
from highway.sweep.table import ReportRequest
from highway.sweep.typed import is_true

log = logging.getLogger("highway")


class HighwaySweeper(Sweeper):
    """The sweeper; hydra_plugins/highway_sweep.py supplies the three functions that other rooms implement."""

    tell: Callable[[list[ReportRequest], Path], None]  # print the report, given the outputs folder
    foresee: Callable[[list[Planned], list[Planned], int | None], None]  # print the cost of all runs and missing ones
    have_data: Callable[[list[Experiment]], None]  # fetch the data of these, or refuse

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context = hydra_context
        self.config: DictConfig = config
        self.launcher: Any = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        parsed = OverridesParser.create(self.context.config_loader).parse_overrides(arguments)
        overrides = {override.key_or_group: override for override in parsed}
        for key in {*SWEEP_ONLY} & {
            override.key_or_group for override in parsed if override is not overrides[override.key_or_group]
        }:
            raise Refused(f"{key}= is given twice. Write several values with commas, as in seeds=1,2,3.")
        flags = ("fail_fast", "retry_failed", "rerun", "plan")
        fail_fast, retry_failed, rerun, planning = (is_true(overrides.pop(key, None)) for key in flags)
        settings = {key: override for key, override in overrides.items() if not override.is_hydra_override()}
        planner = Planner(self, planning, retry_failed)
        while self._stage(planner, settings, overrides, fail_fast, rerun):
            pass  # trials have ended, and the rows that take their settings follow

    def _stage(
        self,
        planner: Planner,
        settings: dict[str, Override],
        typed: dict[str, Override],
        fail_fast: bool,
        rerun: bool,
    ) -> bool:
        """Train what is missing now; return True if that were trials, which all have ended, so that rows follow."""
        plan, tables = planner.plan(dict(settings))
        _refuse_ignored([str(override.input_line).lstrip("+") for override in typed.values()], plan)
        unique = list({planned.directory: planned for planned in plan}.values())
        if not unique:
            raise Refused("Nothing to train: no row is at this budget. Choose another, or add extra_rows=true.")
        outputs = unique[0].directory.path.parents[2]
        again = [
            planned
            for planned in unique
            if rerun and planned.before in DONE and planned.directory not in planner.trained
        ]
        missing = [
            planned for planned in unique if planned in again or planner.is_missing(planned.directory, planned.before)
        ]
        if planner.foresees:
            threads = self.launcher.threads_of_a_run(missing, len(unique)) if missing else None
            self.foresee(unique, missing, threads)
            return False
        if reading := [planned.experiment for planned in missing if planned.experiment]:
            self.have_data(reading)  # before anything is written: a refusal leaves no folder behind
        if again:
            _set_aside(again)
            missing = [planned for planned in missing if not planned.directory.done]
        for write in planner.then:
            write()
        log.info(to_do(unique, missing))
        if planner.choosing and missing:
            log.info("First trials choose settings of %s.", ", ".join(dict.fromkeys(planner.choosing)))
        if missing:
            self.launcher.launch_runs(missing, len(unique), fail_fast)
        planner.trained.update(planned.directory for planned in missing)
        statuses = {planned.directory.status for planned in missing}
        if planner.choosing and missing and statuses <= ({*DONE} if fail_fast else {*ENDED}):
            return True
        if tables:
            self.tell(tables, outputs)
        summarise(unique)
        return False


def _refuse_ignored(overrides: Sequence[str], plan: Sequence[Planned]) -> None:
    """Refuse a key that was typed, and that no run of the sweep reads."""
    experiments = [planned.experiment for planned in plan if planned.experiment is not None]
    for override in overrides:
        if experiments and all(is_unread(experiment, override) for experiment in experiments):
            raise Refused(f"{override} changes nothing: no run of this sweep reads it. Leave it out.")


def _set_aside(done: list[Planned]) -> None:
    """Move the records of finished runs to earlier/, so that they are trained again."""
    for planned in done:
        with suppress(Held), planned.directory.leased():  # a run that still holds its lease has only just finished
            if planned.directory.done:  # unless another sweep has set it aside meanwhile
                planned.directory.set_aside()
                log.info("%s is trained again; its record is now in %s/earlier.", planned.label, planned.directory.path)
