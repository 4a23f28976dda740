"""Load a trained model from its run directory or from a single file of weights, whose header has its configuration.

The vocabulary is built from the training text, which must be present and unchanged.
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
from highway.ledger.directory import RunDirectory
from highway.run import build, machine
from highway.run.checkpoint import put_into, read_weights
from highway.use.spelling import Spelling


@dataclass(frozen=True)
class Trained:
    """A trained model with its run, its configuration and its data."""

    directory: RunDirectory
    experiment: Experiment  # with the folders of this machine
    model: Any
    streams: Any  # the data set, with its vocabulary

    @property
    def spelling(self) -> Spelling:
        """The conversion between text and the symbols of a language model's vocabulary."""
        spelled = self.experiment.dataset_card.forms[self.experiment.dataset.form]
        if spelled not in ("words", "characters", "bytes"):
            raise Refused(
                f"a {self.experiment.task} model does not read text. Use {self.experiment.task_card.script} instead."
            )
        return Spelling(self.streams.vocabulary, in_words=spelled == "words", in_bytes=spelled == "bytes")

    def logits(self, text: Any) -> Any:
        """Return logits (T, V): for each of the T symbols of a text, those of the next symbol; the state starts empty.

        For a model that reads vectors, `text` is a tensor (B, T, width) and the logits are (B, T, V).
        """
        if isinstance(text, torch.Tensor):
            with torch.inference_mode():
                return self.model.logits(self.model(text)[0])
        numbers = self.spelling.numbers_of(text)
        if not numbers:
            raise Refused("an empty text has no logits: pass at least one symbol.")
        with torch.inference_mode():
            features, _ = self.model(torch.tensor([numbers]))
            return self.model.logits(features[0])

    def curve(self, split: str, metric: str) -> tuple[Any, Any]:
        """Return a curve of the run as two arrays: steps and values."""
        if not self.directory.curves.exists():
            raise Refused(f"{self.directory.path} has no curves.csv. Load the run directory, not a file of weights.")
        with open(self.directory.curves, newline="") as file:
            rows = [row for row in csv.DictReader(file) if (row["split"], row["metric"]) == (split, metric)]
        return np.array([int(row["step"]) for row in rows]), np.array([float(row["value"]) for row in rows])


def load(where: str | Path, last: bool = False, *tasks: str) -> Trained:
    """Load a model from a run directory, with the best checkpoint or the last, or from a file of weights.

    With `tasks`, refuse a model of any other task.
    """
    where = Path(where)
    directory = RunDirectory(where.resolve().parents[1] if where.is_file() else where.resolve())
    path = where if where.is_file() else directory.last if last else directory.best
    if where.is_file() and last:
        raise Refused(f"--last chooses a checkpoint of a run, but {where} is a file of weights. Leave --last out.")
    if not path.is_file():
        raise Refused(f"{where} has no {path.name}. Name the directory of a run that has been trained.")
    tensors, header = read_weights(path)
    experiment = _experiment(header["config"])
    if tasks and experiment.task not in tasks:
        raise Refused(f"{where} holds a {experiment.task} model. Use {TASKS[experiment.task].script} instead.")
    machine.keep_freed_memory()
    model = build.model(experiment)
    put_into(model, tensors, path)
    streams = build.streams(experiment.dataset, experiment.data_dir, experiment.outputs_dir)
    if header.get("vocabulary_sha256") not in (None, getattr(streams, "vocabulary_sha256", None)):
        raise Refused(
            f"{path} was trained with another vocabulary than that of {experiment.dataset.name} here. "
            f"Put the text on which it was trained into {experiment.data_dir}, or set HIGHWAY_DATA to its folder."
        )
    return Trained(directory, experiment, model.eval(), streams)


def _experiment(config: str) -> Experiment:
    try:
        values = yaml.safe_load(config)
    except yaml.YAMLError:
        values = None
    if not isinstance(values, dict):
        raise Refused("the header of these weights has no configuration. Use weights that this project has written.")
    _, data_dir, outputs_dir = dataset([])
    return check(OmegaConf.create({**values, "data_dir": str(data_dir), "outputs_dir": str(outputs_dir)}))
