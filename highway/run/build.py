"""The one place where a checked configuration becomes objects."""

from importlib import import_module
from pathlib import Path
from typing import Any

from highway.config import catalogue
from highway.config.schema import Experiment


def model(experiment: Experiment) -> Any:
    """The bare torch module, its initial values drawn from the experiment's seed."""
    module, name = catalogue.MODELS[experiment.model.name].builder.split(":")
    return getattr(import_module(module), name)(experiment)


def files(dataset: Any, data_dir: Path) -> dict[str, Path]:
    """Where the files of a data set's splits belong, present or not."""
    return _reader(dataset).files(dataset, data_dir)


def verify(dataset: Any, data_dir: Path) -> None:
    """Refuses a file of the data set that is missing or not the published one."""
    _reader(dataset).verify(dataset, data_dir)


def _reader(dataset: Any) -> Any:
    return import_module(catalogue.DATASETS[dataset.name].reader)


def streams(dataset: Any, data_dir: Path, outputs_dir: Path) -> Any:
    """The data set's splits as symbol numbers; fetched, checked and cached where need be."""
    return _reader(dataset).streams(dataset, data_dir, outputs_dir / "cache")


def data(experiment: Experiment) -> Any:
    """The Lightning data module of the experiment's task."""
    found = streams(experiment.dataset, experiment.data_dir, experiment.outputs_dir)
    if experiment.task == "translation":
        from highway.data.pairs import TranslationData

        return TranslationData(experiment, found)
    from highway.data.module import LanguageData

    return LanguageData(experiment, found)


def task(experiment: Experiment, steps_per_epoch: int, total_steps: int) -> Any:
    """The Lightning module that trains the experiment's model."""
    if experiment.task == "translation":
        from highway.tasks.translation import Translation

        return Translation(model(experiment), experiment, steps_per_epoch, total_steps)
    from highway.tasks.language import LanguageModelling

    return LanguageModelling(model(experiment), experiment, steps_per_epoch, total_steps)
