"""Build model, data, task and callbacks from a checked configuration. The cards name the classes."""

from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import pytorch_lightning as pl

from highway.config.cards import loaded
from highway.config.datasets import DATASETS
from highway.config.experiment import Experiment
from highway.config.training import CALLBACKS
from highway.describe import flat
from highway.models.initial import initialise


def model(experiment: Experiment) -> Any:
    """Build a backbone with its task's input and output layers, initialised from the experiment's seed."""
    backbone = loaded(experiment.model_card.code)(experiment.model, experiment.gating)
    whole = loaded(experiment.task_card.ends)(experiment, backbone)
    names = [flat(name) for name, _ in whole.named_parameters(remove_duplicate=False)]
    if len(set(names)) < len(names):
        raise TypeError(f"{type(whole).__name__} and {type(backbone).__name__} both have a parameter of one name.")
    initialise(whole, experiment.seed, backbone.family)
    return whole


class Reader(Protocol):
    """The functions of the module that the card of a data set names as its reader.

    A reader that generates its data has only `streams`.
    """

    def files(self, dataset: Any, data_dir: Path) -> dict[str, Path]:
        """Return the paths of the files by name, whether they exist or not."""

    def verify(self, dataset: Any, data_dir: Path) -> None:
        """Raise Refused if a file is missing or differs from the published file."""

    def streams(self, dataset: Any, data_dir: Path, cache_dir: Path) -> Any:
        """Return the splits of the data set; fetch, check and cache them first if needed."""


def _reader(dataset: Any) -> Reader:
    return import_module(DATASETS[dataset.name].reader)


def files(dataset: Any, data_dir: Path) -> dict[str, Path]:
    """Return the paths of a data set's files by name, whether they exist or not; none if its data is generated."""
    reader = _reader(dataset)
    return reader.files(dataset, data_dir) if hasattr(reader, "files") else {}


def verify(dataset: Any, data_dir: Path) -> None:
    """Raise Refused if a file of the data set is missing or differs from the published file."""
    if files(dataset, data_dir):
        _reader(dataset).verify(dataset, data_dir)


def streams(dataset: Any, data_dir: Path, outputs_dir: Path) -> Any:
    """Return the splits of a data set; fetch, check and cache them first if needed."""
    return _reader(dataset).streams(dataset, data_dir, outputs_dir / "cache")


def data(experiment: Experiment) -> Any:
    """Build the Lightning data module of the experiment's task."""
    splits = streams(experiment.dataset, experiment.data_dir, experiment.outputs_dir)
    return loaded(experiment.task_card.data)(experiment, splits)


def task(experiment: Experiment, steps_per_epoch: int = 1, total_steps: int = 1) -> Any:
    """Build the Lightning module that trains the experiment's model."""
    built = loaded(experiment.task_card.code)(model(experiment), experiment, steps_per_epoch, total_steps)
    # Lightning would load a checkpoint before it converts the model, and so round it
    return built.double() if experiment.trainer.precision == "64" else built


def callbacks(experiment: Experiment) -> list[pl.Callback]:
    """Build the Lightning callback that the configuration chooses, if it chooses one."""
    card = CALLBACKS.get(experiment.callback.name)
    return [loaded(card.code)(**experiment.callback.arguments())] if card else []


def like_real(experiment: Experiment, device: str) -> Any:
    """Return a random training batch with the shapes of the recipe."""
    return import_module(experiment.task_card.data.split(":")[0]).like_real(experiment, device)
