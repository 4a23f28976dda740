"""The one place where a checked configuration becomes objects; cards say which."""

from importlib import import_module
from pathlib import Path
from typing import Any

from highway.config.code import loaded
from highway.config.datasets import DATASETS
from highway.config.experiment import Experiment
from highway.models.initial import initialise


def model(experiment: Experiment) -> Any:
    """A backbone between the ends of its task, its initial values drawn from the experiment's seed."""
    backbone = loaded(experiment.model_card.code)(experiment.model, experiment.gating)
    if cuts := getattr(experiment.dataset, "cuts", None):  # how long memory is, and at which distance clamped
        backbone.training_cut, backbone.evaluation_cut = cuts["train"], cuts["evaluation"]
    whole = loaded(experiment.task_card.ends)(experiment, backbone)
    names = [name for name, _ in whole.named_parameters(remove_duplicate=False)]
    if len(set(names)) < len(names):
        raise TypeError(f"{type(whole).__name__} and {type(backbone).__name__} both have a parameter of one name.")
    initialise(whole, experiment.seed, backbone.family)
    return whole


def files(dataset: Any, data_dir: Path) -> dict[str, Path]:
    """Where the files of a data set's splits belong, present or not."""
    return _reader(dataset).files(dataset, data_dir)


def verify(dataset: Any, data_dir: Path) -> None:
    """Refuses a file of the data set that is missing or not the published one."""
    _reader(dataset).verify(dataset, data_dir)


def _reader(dataset: Any) -> Any:
    return import_module(DATASETS[dataset.name].reader)


def streams(dataset: Any, data_dir: Path, outputs_dir: Path) -> Any:
    """The data set's splits; fetched, checked and cached where need be."""
    return _reader(dataset).streams(dataset, data_dir, outputs_dir / "cache")


def data(experiment: Experiment) -> Any:
    """The Lightning data module of the experiment's task."""
    found = streams(experiment.dataset, experiment.data_dir, experiment.outputs_dir)
    return loaded(experiment.task_card.data)(experiment, found)


def task(experiment: Experiment, steps_per_epoch: int = 1, total_steps: int = 1) -> Any:
    """The Lightning module that trains the experiment's model."""
    return loaded(experiment.task_card.module)(model(experiment), experiment, steps_per_epoch, total_steps)


def like_real(experiment: Experiment, device: str) -> Any:
    """A random training batch of the recipe's shape."""
    return import_module(experiment.task_card.data.split(":")[0]).like_real(experiment, device)
