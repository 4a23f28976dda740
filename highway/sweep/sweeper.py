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
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from highway.config.experiment import Experiment
from highway.errors import SweepFailed, counted
from highway.ledger.directory import DONE
from highway.sweep.choose import ENDED
from highway.sweep.plan import Planner
from highway.sweep.planned import Planned, last_line
from highway.sweep.table import ReportRequest
from highway.sweep.typed import read_typed, search_path

log = logging.getLogger("highway")


class HighwaySweeper(Sweeper):
    """The sweeper; hydra_plugins/highway_sweep.py supplies `tell`, since the room of reports is above this one."""

    tell: Callable[[list[ReportRequest], Path], None]  # print reports, given the outputs folder

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context = hydra_context
        self.config: DictConfig = config
        self.launcher: Any = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        typed = read_typed(OverridesParser.create(self.context.config_loader).parse_overrides(arguments))
        planner = Planner(typed, search_path(self.config))
        rows_follow = True
        while rows_follow:
            plan = planner.plan()
            if typed.plan:
                threads = self.launcher.threads_of_a_run(plan.missing, len(plan.runs)) if plan.missing else None
                foresee(plan.runs, plan.missing, threads)
                return
            if plan.missing:  # before anything is written: a refusal leaves no folder behind
                have_data([run.experiment for run in plan.missing if run.experiment])
            plan.write()
            log.info(plan.summary)
            if plan.missing:
                self.launcher.launch_runs(plan.missing, len(plan.runs), typed.fail_fast)
            planner.trained |= {run.directory for run in plan.missing}
            statuses = {run.directory.status for run in plan.missing}
            rows_follow = bool(plan.choosing and plan.missing and statuses <= {*(DONE if typed.fail_fast else ENDED)})
        if plan.reports:
            self.tell(plan.reports, plan.outputs)
        refuse_unfinished(plan.runs)


def foresee(runs: Sequence[Planned], missing: Sequence[Planned], threads: int | None) -> None:
    """Print what the missing runs would cost."""
    from rich.console import Console

    from highway.sweep import cost  # imports torch

    cost.foresee(runs, missing, threads, Console())


def have_data(experiments: Sequence[Experiment]) -> None:
    """Fetch and check the data of these runs, and warn about recipes that do not fit this machine."""
    from highway.run import beforehand, cautions  # they import torch

    beforehand.have_data(experiments)
    cautions.warn(experiments)


def refuse_unfinished(runs: Sequence[Planned]) -> None:
    """Log why each run did not finish, and raise SweepFailed: Hydra ignores what a sweeper returns."""
    unfinished = {run: run.directory.status for run in runs if run.directory.status != "finished"}
    for run, status in unfinished.items():
        error = (run.directory.result() or {}).get("error") or last_line(run.directory.log)
        log.error("%s: %s (%s)", run.label, status, error)
    if unfinished:
        again = " Add retry_failed=true to train failed runs again." if "failed" in unfinished.values() else ""
        raise SweepFailed(
            f"{len(unfinished)} of {counted(len(runs), 'run')} did not finish. "
            f"Type the same command again to resume interrupted runs.{again}"
        )
