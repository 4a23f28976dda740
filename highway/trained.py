"""A trained model, read back from its cell, or from a file of weights alone: its header says of which experiment."""

from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from safetensors import SafetensorError, safe_open

from highway import build
from highway.compose import dataset
from highway.config import check
from highway.errors import Refused
from highway.schema import Experiment
from highway.sweep.cell import Cell
from highway.tasks.checkpoint import load_weights

SCRIPTS = {"language": "scripts/generate.py", "translation": "scripts/translate.py"}


def load(where: Path, task: str, last: bool = False) -> tuple[Experiment, Any]:
    """The experiment, with the folders of this machine, and its model; of a cell with the best weights, or the last."""
    cell = Cell(where.resolve())
    path = where if where.is_file() else cell.last if last else cell.best
    if not path.exists():
        raise Refused(f"{where} has no {path.name}; is it a cell's directory, and has it been trained?")
    experiment = _experiment(path)
    if experiment.task != task:
        raise Refused(f"{where} holds a {experiment.task} model; {SCRIPTS[experiment.task]} is for those.")
    model = build.model(experiment)
    load_weights(model, path)
    return experiment, model.eval()


def _experiment(path: Path) -> Experiment:
    try:
        with safe_open(path, "pt") as file:
            values = yaml.safe_load((file.metadata() or {})["config"])
    except (SafetensorError, KeyError) as error:
        raise Refused(f"{path} is damaged, or holds no weights that this project saved.") from error
    _, data_dir, outputs_dir = dataset([])
    return check(OmegaConf.create({**values, "data_dir": str(data_dir), "outputs_dir": str(outputs_dir)}))
