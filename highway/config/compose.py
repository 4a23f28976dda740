"""Compose configurations with Hydra, through its public interface alone. No other module composes.

Hydra takes long, mostly for its own section `hydra`, and a report composes hundreds of rows. So Hydra composes each
option of a group once; here options are merged in the order of conf/train.yaml, and values are set. Whatever is not so
plain, and every mistake, is left to Hydra as a whole: all errors are Hydra's own.
"""

import copy
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml
from hydra import initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from highway.config.check import check, check_dataset
from highway.config.experiment import Experiment
from highway.config.groups import check_words, is_group
from highway.config.home import CONF
from highway.config.sections import SECTIONS
from highway.config.yaml_file import not_valid
from highway.errors import Refused

SEARCH_PATH = "hydra.searchpath"
PRIMARY = "train"  # conf/train.yaml, from which every configuration starts
# Groups whose option files list only their differences from the neutral defaults.
WITH_NEUTRAL = ("gate", "layers", "optimizer", "trainer", "logger", "debug")

for group in WITH_NEUTRAL:
    ConfigStore.instance().store("_neutral", SECTIONS[group]().model_dump(), group)


def experiment(overrides: Sequence[str]) -> Experiment:
    """Return the checked experiment that the overrides describe."""
    return check(compose(overrides))


def dataset(overrides: Sequence[str]) -> tuple[Any, Path, Path]:
    """Return the data set that the overrides choose, data_dir and outputs_dir."""
    return check_dataset(compose(overrides))


def compose(overrides: Sequence[str]) -> DictConfig:
    """Compose the configuration that the overrides describe, without Hydra's section `hydra`."""
    check_words(overrides)
    with suppress(Exception):  # Hydra can do it, or says what is wrong
        return _merged(overrides)
    config = compose_with_hydra(overrides)
    with open_dict(config):
        del config["hydra"]
    return config


def compose_with_hydra(overrides: Sequence[str], mode: RunMode = RunMode.RUN, name: str = PRIMARY) -> DictConfig:
    """Let Hydra compose conf/NAME.yaml with the overrides and its section `hydra`, which is still to check."""
    check_words(overrides)
    hydra = loader()
    with _refusing():
        return hydra.load_configuration(name, list(overrides), mode)


def chosen(overrides: Sequence[str]) -> dict[str, str]:
    """Return the option that is chosen of each group."""
    typed = {read.key_or_group: str(read.value()) for read in map(parsed, overrides) if not sets_value(read)}
    return {group: typed.get(group, option) for group, option in _primary()[1].items()}


def _merged(overrides: Sequence[str]) -> DictConfig:
    """Merge the options and set the values. Raise an exception if that is not all that Hydra would do."""
    each = [parsed(override) for override in overrides]
    search_path = tuple(str(read.input_line) for read in each if read.key_or_group == SEARCH_PATH)
    for read in each:
        plain = read.type is OverrideType.CHANGE and not read.package and not read.is_sweep_override()
        if not (plain and (sets_value(read) or read.key_or_group in (*_primary()[1], SEARCH_PATH))):
            raise ValueError(read.input_line)
    config = copy.deepcopy(_of_options(tuple(chosen(overrides).items()), search_path))
    for read in each:
        if sets_value(read):
            OmegaConf.update(config, read.key_or_group, read.value(), merge=True)
    return config


@lru_cache(maxsize=256)
def _of_options(options: tuple[tuple[str, str], ...], search_path: tuple[str, ...]) -> DictConfig:
    config = copy.deepcopy(_primary()[0])
    for group, name in options:
        config.merge_with(_option(f"{group}/{name}", search_path))
    OmegaConf.set_struct(config, True)
    return config


@cache
def _option(name: str, search_path: tuple[str, ...]) -> DictConfig:
    """Let Hydra compose an option with those that it builds on; raise an exception if it chooses of other groups."""
    config = compose_with_hydra(search_path, name=name)
    if others := [group for group in config.hydra.runtime.choices if not group.startswith("hydra/")]:
        raise ValueError(others)
    OmegaConf.set_struct(config, None)
    del config["hydra"]
    return config


@cache
def _primary() -> tuple[DictConfig, dict[str, str]]:
    """Return the keys of conf/train.yaml, and the option that it chooses of each group, in the order of merging."""
    content: Any = OmegaConf.load(CONF / f"{PRIMARY}.yaml")
    chosen = [entry for entry in content.pop("defaults") if OmegaConf.is_dict(entry)]
    options = {str(group): option for entry in chosen for group, option in entry.items()}
    return content, {group: name for group, name in options.items() if name and not group.startswith("override ")}


@cache
def loader() -> ConfigLoader:
    """Return Hydra's loader of conf/. An application of Hydra in which this runs stays as it is."""
    instance = GlobalHydra.instance()
    theirs = instance.hydra
    instance.clear()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The version_base parameter")  # Hydra 1.3 needs it, 1.4 warns of it
            with initialize_config_dir(str(CONF), version_base="1.3"):
                return GlobalHydra.instance().config_loader()
    finally:
        instance.hydra = theirs
        GlobalHydra.set_instance(instance)


def sets_value(override: Override) -> bool:
    """Return True if an override sets a value: the name of a group has no dot."""
    key = override.key_or_group
    return not key.startswith("hydra") and ("." in key or not ("/" in key or is_group(key)))


@lru_cache(maxsize=4096)
def parsed(override: str) -> Override:
    """Parse an override by Hydra's grammar."""
    return OverridesParser.create().parse_overrides([override])[0]


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn errors and warnings of Hydra that are not its own exceptions into `Refused`: a file or override is wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            yield
    except (Refused, HydraException, OmegaConfBaseException):
        raise
    except yaml.MarkedYAMLError as error:
        raise not_valid(error) from error
    except Exception as error:
        raise Refused(" ".join(str(error).split()).rstrip(".") + ".") from error
