"""Copy a run to Weights & Biases, offline unless asked for online. The files of a run remain the truth."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from highway.config.experiment import Experiment
from highway.ledger.directory import RunDirectory
from highway.ledger.identity import configuration
from highway.run.recorder import Row
from highway.run.resources import peak_memory_bytes

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
