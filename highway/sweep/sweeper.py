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
from collections.abc import Sequence
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
from highway.sweep.plan import Planner
from highway.sweep.planned_run import Planned, last_line
from highway.tables.choose import ENDED
from highway.tables.table import ReportRequest
from highway.tables.typed import read_typed, search_path

log = logging.getLogger("highway")


class HighwaySweeper(Sweeper):
    """Trains what a sweep lacks, stage by stage, then prints its reports."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context = hydra_context
        self.config: DictConfig = config
        self.launcher: Any = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        typed = read_typed(OverridesParser.create(self.context.config_loader).parse_overrides(arguments))
        planner = Planner(typed, search_path(self.config))
        another_stage = True
        while another_stage:
            plan = planner.plan()
            if typed.plan:
                threads = self.launcher.threads_of_a_run(plan.to_train, len(plan.runs)) if plan.to_train else None
                print_cost(plan.runs, plan.to_train, threads)
                return
            if plan.to_train:  # before anything is written: a refusal leaves no folder behind
                prepare_data([run.experiment for run in plan.to_train])
            plan.write()
            log.info(plan.summary)
            if plan.to_train:
                self.launcher.launch_runs(plan.to_train, len(plan.runs), typed.fail_fast)
            planner.trained |= {run.directory for run in plan.to_train}
            statuses = {run.directory.status for run in plan.to_train}
            trials_ended = plan.choosing and statuses <= {*(DONE if typed.fail_fast else ENDED)}
            another_stage = bool(plan.to_train and trials_ended)  # now they choose, and the rows follow
        if plan.reports:
            print_reports(plan.reports, plan.outputs)
        refuse_unfinished(plan.runs)


def print_cost(runs: Sequence[Planned], missing: Sequence[Planned], threads: int | None) -> None:
    """Print what the missing runs would cost."""
    from rich.console import Console

    from highway.sweep import cost  # imports torch

    cost.foresee(runs, missing, threads, Console())


def prepare_data(experiments: Sequence[Experiment]) -> None:
    """Fetch and check the data of these runs, and warn about recipes that do not fit this machine."""
    from highway.data import prepare
    from highway.run import cautions  # they import torch

    prepare.prepare_all(experiments)
    cautions.warn(experiments)


def print_reports(requests: Sequence[ReportRequest], outputs: Path) -> None:
    """Write and print the reports of what was trained."""
    from rich.console import Console

    from highway.report.write import show_reports

    show_reports(requests, outputs, Console())


def refuse_unfinished(runs: Sequence[Planned]) -> None:
    """Log why each run did not finish, and raise SweepFailed: Hydra ignores what a sweeper returns."""
    unfinished = {run: run.directory.status for run in runs if run.directory.status != "finished"}
    for run, status in unfinished.items():
        error = (run.directory.result() or {}).get("error") or last_line(run.directory.log)
        log.error("%s: %s (%s)", run.label, status, error)
    if unfinished:
        statuses = {*unfinished.values()}
        resume = " Type the same command again to resume interrupted runs." if statuses - {*ENDED} else ""
        again = " Add retry_failed=true to train failed runs again." if "failed" in statuses else ""
        raise SweepFailed(f"{len(unfinished)} of {counted(len(runs), 'run')} did not finish.{resume}{again}")
