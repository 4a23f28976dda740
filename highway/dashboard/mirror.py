"""Copy runs to Weights & Biases, offline unless asked for online. The files of a run remain the truth.

A run is mirrored while it trains, or its finished record is sent afterwards. `sync` uploads what was logged offline.
"""

import csv
import subprocess
import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from highway.config.experiment import Experiment
from highway.ledger.directory import RunDirectory
from highway.ledger.identity import configuration
from highway.run.recorder import Row
from highway.run.resources import peak_memory_bytes

if TYPE_CHECKING:  # training imports this module, and needs no report
    from highway.report.collect import Collected
    from highway.report.sample import Sample

LONGEST_TAG = 64  # characters that W&B accepts


def mirror_of(experiment: Experiment, directory: RunDirectory) -> "Mirror":
    """Return the mirror of the run that this process trains."""
    run_id, logger = f"{directory.name}-seed{experiment.seed}", experiment.logger
    return Mirror(experiment, run_id, directory.path, logger.group, logger.run, peak_memory_bytes)


class Mirror:
    """The W&B run of one run: group = table, name = row and seed, id from its directory, so a resumed run continues."""

    def __init__(
        self,
        experiment: Experiment,
        run_id: str,
        folder: Path,
        group: str | None,
        name: str | None,
        memory: Callable[[], int] | None = None,  # peak bytes so far, if this process trains the run
    ) -> None:
        import wandb

        self.memory = memory
        self.before: Row | None = None  # the previous training row
        folder.mkdir(parents=True, exist_ok=True)
        name = name or run_id
        row = name.replace(f" seed {experiment.seed}", "")
        self.run: Any = wandb.init(
            project=experiment.logger.project,
            mode=experiment.logger.wandb,  # type: ignore[arg-type]
            id=run_id,
            group=group,
            name=name,
            tags=tags(experiment, group, row),
            config={**configuration(experiment), "table": group, "row": row},
            job_type="run",
            dir=str(folder),
            resume="allow" if experiment.logger.wandb == "online" else None,
            settings=wandb.Settings(silent=True, console="off"),
        )

    def __call__(self, rows: list[Row]) -> None:
        """Log the rows of one split at one step. The speed is measured since the previous training row."""
        first = rows[0]
        values = {f"{row['split']}/{row['metric']}": float(row["value"]) for row in rows}
        values |= {key: float(first[key]) for key in ("epoch", "tokens", "seconds")}
        if first["split"] == "train":
            passed = float(first["seconds"]) - float(self.before["seconds"]) if self.before else 0.0
            if self.before and passed > 0:
                values["train/tokens_per_second"] = (int(first["tokens"]) - int(self.before["tokens"])) / passed
            if self.memory:
                values["train/peak_memory_mib"] = self.memory() / 2**20
            self.before = first
        self.run.log(values, step=int(first["step"]))

    def finish(self, result: dict[str, Any]) -> None:
        """Finish the W&B run. Call this always: an unfinished W&B run would take the values of the next one."""
        metrics = result.get("metrics", {})
        self.run.summary.update(
            {
                **{name: values["best"] for name, values in metrics.items()},  # of the best validation
                **{f"{name}_last": values["last"] for name, values in metrics.items()},
                **{f"parameters/{name}": count for name, count in result.get("parameters", {}).items()},
                **{f"cost/{name}": value for name, value in result.get("cost", {}).items()},
                "status": result["status"],
                "command": result.get("command"),
            }
        )
        self.run.finish(exit_code=0 if result["status"] == "finished" else 1)


def tags(experiment: Experiment, group: str | None, row: str) -> list[str]:
    """Return the tags of a run: table, row, model, gates, budget, data set and its source."""
    gates = experiment.gates.values() or ["no gate"]
    data = (experiment.dataset.name, experiment.dataset.source)
    return [
        word[:LONGEST_TAG] for word in (group, row, experiment.model.name, *gates, experiment.budget, *data) if word
    ]


def unsent(collected: "Collected", folder: Path) -> dict[Path, tuple[str, "Sample"]]:
    """Return the finished records of a table that were not mirrored, by their directory, each with the id of its row.

    A run that is a seed of several rows counts as one of the first of them.
    """
    waiting: dict[Path, tuple[str, Sample]] = {}
    for row in collected.table.rows:
        for sample in collected.finished(row.id):
            mirrored = [sample.directory / "wandb", folder / sample.name / "wandb"]
            if not any(path.exists() for path in mirrored):
                waiting.setdefault(sample.directory, (row.id, sample))
    return waiting


def send(collected: "Collected", mode: str, project: str, folder: Path) -> int:
    """Send the records that are not mirrored as W&B runs, online or offline below `folder`; return how many."""
    waiting = unsent(collected, folder)
    for row, sample in waiting.values():
        experiment = collected.experiment(row)
        logger = experiment.logger.model_copy(update={"wandb": mode, "project": project})
        as_it_ran = experiment.model_copy(update={"seed": sample.seed, "logger": logger})
        name = f"{row} seed {sample.seed}"
        mirror = Mirror(as_it_ran, sample.name, folder / sample.name, collected.table.id, name)
        with open(sample.directory / "curves.csv", newline="") as file:
            points: list[dict[str, Any]] = sorted(csv.DictReader(file), key=lambda point: int(point["step"]))
        for _, together in groupby(points, key=lambda point: (point["step"], point["split"])):
            mirror(list(together))
        mirror.finish(sample.result)
    return len(waiting)


def offline_runs(folder: Path) -> list[Path]:
    """Return the runs that are not uploaded yet, oldest first, so that a resumed run extends its earlier part."""
    directories = [path for path in folder.rglob("offline-run-*") if path.is_dir()]
    waiting = [path for path in directories if not any(path.glob("*.synced"))]
    return sorted(waiting, key=lambda path: path.name)  # a name begins with the time at which the run started


def sync(folder: Path) -> bool:
    """Upload every offline run; return whether all were uploaded. The others wait for the next call."""
    waiting = offline_runs(folder)
    return not waiting or subprocess.run([sys.executable, "-m", "wandb", "sync", *map(str, waiting)]).returncode == 0
