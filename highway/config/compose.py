"""From overrides to a checked experiment. Hydra composes conf/, through its public interface; no other module does.

Hydra takes a fifth of a second, mostly for its own section `hydra`, and a report composes hundreds of rows. `compose`
therefore merges plain files of conf/ itself, in Hydra's order and once for each choice of options, and sets values on
a copy. Whatever is not so plain, and every mistake in composing, is left to Hydra. So is a run that is to be trained,
with its section `hydra`.
"""

import copy
import re
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
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from highway.cards import gated_layers
from highway.config.experiment import ROOT, SECTIONS, SWEEP_ONLY, Experiment, Folders, checked, checked_dataset
from highway.config.groups import check_words, is_group
from highway.config.guard import check_hydra
from highway.config.home import CONF
from highway.errors import Refused, closest
from highway.keys.yaml_file import not_valid, parsed

SEARCH_PATH = "hydra.searchpath"
PACKAGE = re.compile(r"^# *@package +(\S+)", re.MULTILINE)
PRIMARY = "train"  # conf/train.yaml, from which every configuration starts
# Groups whose option files list only their differences from the neutral defaults.
WITH_NEUTRAL = ("gate", "layers", "optimizer", "trainer", "logger", "debug")

for group in WITH_NEUTRAL:
    ConfigStore.instance().store("_neutral", SECTIONS[group]().model_dump(), group)


def experiment(overrides: Sequence[str]) -> Experiment:
    """Return the checked experiment that the overrides describe."""
    return as_experiment(compose(overrides))


def dataset(overrides: Sequence[str]) -> tuple[Any, Path, Path]:
    """Return the data set that the overrides choose, data_dir and outputs_dir."""
    return checked_dataset(_plain(compose(overrides), ("dataset", *Folders.model_fields)))


def compose(overrides: Sequence[str]) -> DictConfig:
    """Compose the configuration that the overrides describe, without Hydra's section `hydra`."""
    check_words(overrides)
    with suppress(HydraException, OmegaConfBaseException, NotPlain):  # then Hydra composes it, or says what is wrong
        return _with_values(overrides)
    return _without_hydra(compose_with_hydra(overrides))


def compose_with_hydra(overrides: Sequence[str], mode: RunMode = RunMode.RUN) -> DictConfig:
    """Let Hydra compose conf/train.yaml with the overrides and its section `hydra`, which is still to check."""
    check_words(overrides)
    hydra = loader()
    with _refusing():
        return hydra.load_configuration(PRIMARY, list(overrides), mode)


def as_experiment(config: DictConfig) -> Experiment:
    """Return a composed configuration as an experiment. Raise `Refused` with one sentence if anything is wrong."""
    for key in config:
        if key not in (*ROOT, *SWEEP_ONLY, "hydra"):
            raise Refused(f"'{key!s}' is not a key of the configuration.{closest(str(key), list(ROOT))}")
    if "hydra" in config:
        check_hydra(config.hydra)
    for key in SWEEP_ONLY:
        if config.get(key):
            raise Refused(f"{key}=... belongs to a sweep: add -m, as in highway train -m table=highway_t1.")
    return checked(_plain(config, ROOT))


def _plain(config: DictConfig, keys: Sequence[str]) -> dict[str, Any]:
    """Return these keys as plain values, interpolations resolved."""
    try:
        values: dict[str, Any] = {key: config[key] for key in keys if key in config}
        for key, value in values.items():
            if OmegaConf.is_config(value):
                values[key] = OmegaConf.to_container(value, resolve=True, throw_on_missing=True)
        return values
    except MissingMandatoryValue as error:
        raise Refused(f"{error.full_key} has no value. Set it: {error.full_key}=VALUE.") from error


def chosen(overrides: Sequence[str]) -> dict[str, str]:
    """Return the option that is chosen of each group."""
    typed = {read.key_or_group: str(read.value()) for read in map(override_of, overrides) if not sets_value(read)}
    return {group: typed.get(group, option) for group, option in _primary()[1].items()}


class NotPlain(Exception):
    """An override does more than to choose one option or to set one value, or an option is more than its keys."""


def _with_values(overrides: Sequence[str]) -> DictConfig:
    """Compose the options that the overrides choose, once, and set the values on a copy."""
    values: list[Override] = []
    choices: list[Override] = []
    for read in map(override_of, overrides):
        if read.type is not OverrideType.CHANGE or read.package or read.is_sweep_override():
            raise NotPlain(read.input_line)
        (values if sets_value(read) else choices).append(read)
    config = copy.deepcopy(_of_options(tuple(str(read.input_line) for read in choices)))
    for read in values:
        OmegaConf.update(config, read.key_or_group, read.value(), merge=True)
    return config


@lru_cache(maxsize=256)
def _of_options(choices: tuple[str, ...]) -> DictConfig:
    """Compose a choice of options, once: merge their files, or let Hydra do it where one is not plain."""
    try:
        if not {override_of(choice).key_or_group for choice in choices} <= {*_primary()[1], SEARCH_PATH}:
            raise NotPlain(choices)
        contents = [content for group, name in chosen(choices).items() for content in _files_of(group, name)]
    except NotPlain:
        return _without_hydra(compose_with_hydra(choices))
    config = copy.deepcopy(_primary()[0])
    for content in contents:
        config.merge_with(content)
    OmegaConf.set_struct(config, True)
    return config


@cache
def _files_of(group: str, name: str) -> tuple[dict[str, Any], ...]:
    """Return what an option of conf/ sets, a file at a time in Hydra's order: first those that it builds on."""
    if name == "_neutral" and group in WITH_NEUTRAL:
        return ({group: SECTIONS[group]().model_dump()},)
    if group == "layers" and (chosen_layers := gated_layers.option(name)):
        return (*_files_of(group, "_neutral"), {group: chosen_layers})
    path = CONF / group / f"{name}.yaml"
    text = path.read_bytes() if path.is_file() else b""
    content = parsed(text, str(path)).content
    if not isinstance(content, dict):
        raise NotPlain(name)
    package = PACKAGE.search(text.decode())
    bases = content.pop("defaults", ["_self_"])
    simple = isinstance(bases, list) and all(isinstance(base, str) and re.fullmatch(r"\w+", base) for base in bases)
    if not simple or bases[-1] != "_self_" or "hydra" in content or (package and package[1] != "_global_"):
        raise NotPlain(name)
    below = [file for base in bases[:-1] for file in _files_of(group, base)]
    return (*below, content if package else {group: content})


def _without_hydra(config: DictConfig) -> DictConfig:
    with open_dict(config):
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
def override_of(override: str) -> Override:
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
