"""Send finished records to W&B as runs: those that were not mirrored while they ran, or ran on another machine."""

import csv
from pathlib import Path
from typing import Any

from highway.config.experiment import Experiment
from highway.dashboard.mirror import Mirror, by_step
from highway.report.collect import Collected
from highway.report.sample import Sample
from highway.sweep.table import Row


def send(collected: Collected, mode: str, project: str, folder: Path) -> int:
    """Send each finished record of a table that was not mirrored, online or offline below `folder`; return how many.

    A run that is a seed of several rows is sent as the first of them.
    """
    waiting = unsent(collected, folder)
    for row, sample in waiting.values():
        _send(collected, row, sample, mode, project, folder)
    return len(waiting)


def unsent(collected: Collected, folder: Path) -> dict[Path, tuple[Row, Sample]]:
    """Return the finished records of a table that were not mirrored, by their directory."""
    waiting: dict[Path, tuple[Row, Sample]] = {}
    for row in collected.table.rows:
        for sample in collected.finished(row.id):
            mirrored = [sample.directory / "wandb", folder / sample.name / "wandb"]
            if not any(path.exists() for path in mirrored):
                waiting.setdefault(sample.directory, (row, sample))
    return waiting


def _send(collected: Collected, row: Row, sample: Sample, mode: str, project: str, folder: Path) -> None:
    experiment = _as_it_ran(collected.experiment(row.id), sample, mode, project)
    mirror = Mirror(experiment, sample.name, folder / sample.name, collected.table.id, f"{row.id} seed {sample.seed}")
    with open(sample.directory / "curves.csv", newline="") as file:
        rows: list[dict[str, Any]] = sorted(csv.DictReader(file), key=lambda row: int(row["step"]))
    for rows_of_step in by_step(rows):
        mirror(rows_of_step)
    mirror.finish(sample.result)


def _as_it_ran(experiment: Experiment, sample: Sample, mode: str, project: str) -> Experiment:
    logger = experiment.logger.model_copy(update={"wandb": mode, "project": project})
    return experiment.model_copy(update={"seed": sample.seed, "logger": logger})


def send_report(paths: list[Path], table: str, mode: str, project: str, folder: Path) -> None:
    """Send the rendered table and its figures as an artefact of a separate W&B run."""
    import wandb

    folder.mkdir(parents=True, exist_ok=True)
    run = wandb.init(
        project=project,
        mode=mode,  # type: ignore[arg-type]
        group=table,
        name=f"{table} report",
        job_type="report",
        dir=str(folder),
        settings=wandb.Settings(silent=True, console="off"),
    )
    artefact = wandb.Artifact(f"{table}-report", type="report")
    for path in paths:
        artefact.add_file(str(path))
    run.log_artifact(artefact)
    run.finish()
