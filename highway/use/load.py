"""A trained model, read back from its cell, or from a file of weights alone: its header says of which experiment.

The symbols come from the text that it was trained on, which must be at hand, and unchanged.
"""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from omegaconf import OmegaConf

from highway.config.check import check
from highway.config.compose import dataset
from highway.config.experiment import Experiment
from highway.config.tasks import TASKS
from highway.errors import Refused
from highway.ledger.cell import Cell
from highway.run import build, machine
from highway.run.checkpoint import put_into, read_weights
from highway.use.spelling import Spelling


@dataclass(frozen=True)
class Trained:
    cell: Cell
    experiment: Experiment  # with the folders of this machine
    model: Any
    streams: Any  # of its text

    @property
    def spelling(self) -> Spelling:
        spelled = self.experiment.dataset_card.forms[self.experiment.dataset.form]
        if spelled not in ("words", "characters", "bytes"):
            raise Refused(
                f"a {self.experiment.task} model reads no symbols: {self.experiment.task_card.script} is for it."
            )
        return Spelling(self.streams.vocabulary, in_words=spelled == "words", in_bytes=spelled == "bytes")

    def logits(self, text: Any) -> Any:
        """(T, V): at every symbol of a text, of the one after it; the text is read from a state of nothing.

        Of a model that reads values: from a tensor (B, T, values), at every position.
        """
        if isinstance(text, torch.Tensor):
            with torch.inference_mode():
                return self.model.logits(self.model(text)[0])
        numbers = self.spelling.numbers_of(text)
        if not numbers:
            raise Refused("an empty text has no logits.")
        with torch.inference_mode():
            features, _ = self.model(torch.tensor([numbers]))
            return self.model.logits(features[0])

    def curve(self, split: str, metric: str) -> tuple[Any, Any]:
        """Steps and values, as arrays."""
        if not self.cell.curves.exists():
            raise Refused(f"{self.cell.directory} has no curves.csv: a file of weights alone has no curves.")
        with open(self.cell.curves, newline="") as file:
            rows = [row for row in csv.DictReader(file) if (row["split"], row["metric"]) == (split, metric)]
        return np.array([int(row["step"]) for row in rows]), np.array([float(row["value"]) for row in rows])


def load(where: str | Path, last: bool = False, *tasks: str) -> Trained:
    """Of a cell with the best weights, or the last."""
    where = Path(where)
    cell = Cell(where.resolve().parents[1] if where.is_file() else where.resolve())
    path = where if where.is_file() else cell.last if last else cell.best
    if where.is_file() and last:
        raise Refused(f"--last is of a cell, and {where} is one file of weights.")
    if not path.is_file():
        raise Refused(f"{where} has no {path.name}; is it a cell's directory, and has it been trained?")
    tensors, header = read_weights(path)
    experiment = _experiment(header["config"])
    if tasks and experiment.task not in tasks:
        raise Refused(f"{where} holds a {experiment.task} model; {TASKS[experiment.task].script} is for those.")
    machine.keep_freed_memory()
    model = build.model(experiment)
    put_into(model, tensors, path)
    streams = build.streams(experiment.dataset, experiment.data_dir, experiment.outputs_dir)
    if header.get("vocabulary_sha256") not in (None, getattr(streams, "vocabulary_sha256", None)):
        raise Refused(
            f"{path} was trained with another vocabulary than that of {experiment.dataset.name} here: "
            f"its text in {experiment.data_dir} is not the one that the model has read."
        )
    return Trained(cell, experiment, model.eval(), streams)


def _experiment(config: str) -> Experiment:
    try:
        values = yaml.safe_load(config)
    except yaml.YAMLError:
        values = None
    if not isinstance(values, dict):
        raise Refused("the header of these weights has no configuration of an experiment.")
    _, data_dir, outputs_dir = dataset([])
    return check(OmegaConf.create({**values, "data_dir": str(data_dir), "outputs_dir": str(outputs_dir)}))
