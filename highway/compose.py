"""An experiment from override words, for everything but training itself: reports, tables, data, tests."""

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from highway.config import CONF, check
from highway.schema import Experiment


def experiment(words: list[str]) -> Experiment:
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return check(compose("train", words))


def options(group: str) -> list[str]:
    """What a configuration group offers; files that begin with _ are parts of others."""
    return sorted(path.stem for path in (CONF / group).glob("[!_]*.yaml"))
