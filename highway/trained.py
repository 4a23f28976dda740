"""The trained model of a cell, read back from its directory."""

from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf

from highway import build
from highway.config import check
from highway.errors import Refused
from highway.schema import Experiment
from highway.sweep.cell import Cell
from highway.tasks.checkpoint import load_weights

SCRIPTS = {"language": "scripts/generate.py", "translation": "scripts/translate.py"}


def load(directory: Path, task: str, last: bool = False) -> tuple[Experiment, Any]:
    """The experiment, with the folders of this machine, and its model with the best weights, or the last."""
    cell = Cell(directory.resolve())
    path = cell.last if last else cell.best
    if not path.exists():
        raise Refused(f"{directory} has no {path.name}; is it a cell's directory, and has it been trained?")
    experiment = _experiment(cell)
    if experiment.task != task:
        raise Refused(f"{directory} holds a {experiment.task} model; {SCRIPTS[experiment.task]} is for those.")
    model = build.model(experiment)
    load_weights(model, path)
    return experiment, model.eval()


def _experiment(cell: Cell) -> Experiment:
    from highway.compose import dataset

    _, data_dir, outputs_dir = dataset([])
    values = yaml.safe_load(cell.config.read_text())
    return check(OmegaConf.create({**values, "data_dir": str(data_dir), "outputs_dir": str(outputs_dir)}))
