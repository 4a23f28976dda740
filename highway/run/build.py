"""Build model, data, task and callbacks from a checked configuration. The cards name the classes."""

from typing import Any

import pytorch_lightning as pl

from highway.cards.callbacks import CALLBACKS
from highway.cards.card import loaded
from highway.config.experiment import Experiment
from highway.data.prepare import streams
from highway.describe import flat
from highway.models.initial import initialise


def model(experiment: Experiment) -> Any:
    """Build a backbone with its task's input and output layers, initialised from the experiment's seed.

    For model=transformer dataset=ptb_char these are TransformerBackbone and Symbols; the data module is LanguageData,
    and the task LanguageModelling.
    """
    backbone = loaded(experiment.model_card.code)(experiment.model, experiment.gating)
    whole = loaded(experiment.task_card.ends)(experiment, backbone)
    names = [flat(name) for name, _ in whole.named_parameters(remove_duplicate=False)]
    if len(set(names)) < len(names):
        raise TypeError(f"{type(whole).__name__} and {type(backbone).__name__} both have a parameter of one name.")
    initialise(whole, experiment.seed, backbone.family)
    return whole


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
    return loaded(experiment.task_card.data).like_real(experiment, device)
