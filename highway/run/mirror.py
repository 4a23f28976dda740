"""Weights & Biases as a mirror of curves.csv. Offline unless asked; the files of the cell stay the truth."""

import logging
from pathlib import Path
from typing import Any

from highway.config.experiment import Experiment
from highway.run.recorder import Row

log = logging.getLogger("highway")


class Mirror:
    """One W&B run per cell: group = table, name = row and seed, id from the cell, so that a resumed run goes on."""

    def __init__(self, experiment: Experiment, cell_id: str, folder: Path) -> None:
        self.run: Any = None
        try:
            import wandb
        except ImportError:
            log.warning("logger=wandb: the wandb package is missing, so nothing is mirrored (pip install wandb).")
            return
        folder.mkdir(parents=True, exist_ok=True)
        self.run = wandb.init(
            project=experiment.logger.project,
            mode=experiment.logger.wandb,  # type: ignore[arg-type]
            id=cell_id,
            group=experiment.logger.group,
            name=experiment.logger.run or cell_id,
            job_type="cell",
            dir=str(folder),
            resume="allow" if experiment.logger.wandb == "online" else None,
            settings=wandb.Settings(silent=True, console="off"),
        )

    def __call__(self, rows: list[Row]) -> None:
        if self.run is not None:
            values = {f"{row['split']}/{row['metric']}": row["value"] for row in rows}
            self.run.log({**values, "epoch": rows[0]["epoch"], "tokens": rows[0]["tokens"]}, step=rows[0]["step"])

    def finish(self, summary: dict[str, Any], status: str) -> None:
        """Always called: a run that is not finished would swallow the next one's values."""
        if self.run is not None:
            self.run.summary.update({**summary, "status": status})
            self.run.finish(exit_code=0 if status == "finished" else 1)
