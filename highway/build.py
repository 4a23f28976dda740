"""The one place where a checked configuration becomes objects."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from highway import catalogue
from highway.schema import Experiment


def _named(place: str) -> Any:
    module, name = place.split(":")
    return getattr(import_module(module), name)


def model(experiment: Experiment) -> Any:
    """The bare torch module, its initial values drawn from the experiment's seed."""
    return _named(catalogue.MODELS[experiment.model.name].builder)(experiment)


def reader(experiment: Experiment) -> Callable[..., Any]:
    return _named(catalogue.DATASETS[experiment.dataset.name].reader)


def data(experiment: Experiment) -> Any:
    """The Lightning data module of the experiment's task."""
    from highway.data.module import LanguageData

    cache = experiment.outputs_dir / "cache"
    return LanguageData(experiment, reader(experiment)(experiment.dataset, experiment.data_dir, cache))


def task(experiment: Experiment, steps_per_epoch: int, total_steps: int) -> Any:
    """The Lightning module that trains the experiment's model."""
    from highway.tasks.language import LanguageModelling

    return LanguageModelling(model(experiment), experiment, steps_per_epoch, total_steps)
