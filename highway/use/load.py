"""A trained model, read back from its cell, or from a file of weights alone: its header says of which experiment.

The symbols come from the text that it was trained on, which must be at hand, and unchanged.
"""

from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from safetensors import SafetensorError, safe_open

from highway.config.check import check
from highway.config.compose import dataset
from highway.config.schema import Experiment
from highway.errors import Refused
from highway.ledger.cell import Cell
from highway.run import build, machine
from highway.run.checkpoint import load_weights

SCRIPTS = {"language": "scripts/generate.py", "translation": "scripts/translate.py"}


def load(where: Path, task: str, last: bool = False) -> tuple[Experiment, Any, Any]:
    """The experiment, with the folders of this machine, its model and its text's streams; of a cell with the best
    weights, or the last."""
    cell = Cell(where.resolve())
    path = where if where.is_file() else cell.last if last else cell.best
    if not path.exists():
        raise Refused(f"{where} has no {path.name}; is it a cell's directory, and has it been trained?")
    header = _header(path)
    experiment = _experiment(header["config"])
    if experiment.task != task:
        raise Refused(f"{where} holds a {experiment.task} model; {SCRIPTS[experiment.task]} is for those.")
    machine.keep_freed_memory()
    model = build.model(experiment)
    load_weights(model, path)
    streams = build.streams(experiment.dataset, experiment.data_dir, experiment.outputs_dir)
    if header.get("vocabulary_sha256") not in (None, streams.vocabulary_sha256):
        raise Refused(
            f"{path} was trained with another vocabulary than that of {experiment.dataset.name} here: "
            f"its text in {experiment.data_dir} is not the one that the model has read."
        )
    return experiment, model.eval(), streams


def _header(path: Path) -> dict[str, str]:
    try:
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
    except SafetensorError as error:
        raise Refused(f"{path} is damaged, or no file of weights.") from error
    if "config" not in header:
        raise Refused(f"{path} does not say of which experiment its weights are; those that this project saves do.")
    return header


def _experiment(config: str) -> Experiment:
    values = yaml.safe_load(config)
    _, data_dir, outputs_dir = dataset([])
    return check(OmegaConf.create({**values, "data_dir": str(data_dir), "outputs_dir": str(outputs_dir)}))
