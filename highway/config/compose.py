"""An experiment from override words, for everything but training itself: reports, tables, data, tests."""

from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig

from highway.config.check import CONF, check, check_dataset
from highway.config.schema import Dataset, Experiment


def experiment(words: list[str]) -> Experiment:
    return check(_composed(words))


def dataset(words: list[str]) -> tuple[Dataset, Path, Path]:
    """The data set that the words choose, and the folders of data and outputs."""
    return check_dataset(_composed(words))


def _composed(words: list[str]) -> DictConfig:
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("train", words)


def options(group: str) -> list[str]:
    """What a configuration group offers; files that begin with _ are parts of others."""
    return sorted(path.stem for path in (CONF / group).glob("[!_]*.yaml"))
