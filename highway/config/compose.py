"""An experiment from override words, for everything but training itself: reports, tables, data, tests."""

import dataclasses
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig

from highway.config.check import CONF, SECTIONS, check, check_dataset
from highway.config.experiment import Experiment
from highway.config.guard import check_words, composing

# Groups whose options say what they change of the neutral defaults.
NEUTRAL = ("gate", "layers", "optimizer", "trainer", "logger", "debug")

for group in NEUTRAL:
    ConfigStore.instance().store("_neutral", dataclasses.asdict(SECTIONS[group]()), group)


def experiment(words: list[str]) -> Experiment:
    return check(_composed(words))


def dataset(words: list[str]) -> tuple[Any, Path, Path]:
    """The data set that the words choose, and the folders of data and outputs."""
    return check_dataset(_composed(words))


def _composed(words: list[str]) -> DictConfig:
    check_words(words)
    GlobalHydra.instance().clear()
    with composing(), initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("train", words)
