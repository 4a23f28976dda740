"""An experiment from override words, for everything but training itself: sweeps, reports, tables, data, tests."""

import copy
import dataclasses
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository
from hydra._internal.defaults_list import create_defaults_list
from hydra._internal.utils import create_config_search_path
from hydra.core.config_store import ConfigStore
from hydra.core.default_element import GroupDefault
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from highway.config.check import CONF, SECTIONS, check, check_dataset
from highway.config.experiment import Experiment
from highway.config.guard import check_words, composing

# Groups whose options say what they change of the neutral defaults.
NEUTRAL = ("gate", "layers", "optimizer", "trainer", "logger", "debug")

for group in NEUTRAL:
    ConfigStore.instance().store("_neutral", dataclasses.asdict(SECTIONS[group]()), group)


class Composer:
    """What Hydra composes, without Hydra's settings of itself, which take most of its time.

    Each file is read once, and each choice of groups composed once: values decide nothing of that, and are set on a
    copy, by Hydra as ever.
    """

    def __init__(self, loader: ConfigLoaderImpl, name: str = "train", hydra: Sequence[str] = ()) -> None:
        """`hydra`: words to Hydra itself, which may add to where it looks for files."""
        self.loader, self.name, self.files = loader, name, _Files(loader.repository)
        loader._process_config_searchpath(name, [_parsed(word) for word in hydra], self.files)
        self.chosen = lru_cache(maxsize=64)(self._chosen)

    def __call__(self, words: Sequence[str]) -> DictConfig:
        parsed = [word for word in map(_parsed, words) if not word.is_hydra_override()]
        self.loader.validate_sweep_overrides_legal(parsed, RunMode.RUN, from_shell=True)
        groups = tuple(str(word.input_line) for word in parsed if self._chooses(word))
        config = copy.deepcopy(self.chosen(groups))
        self.loader._apply_overrides_to_config([word for word in parsed if not self._chooses(word)], config)
        return config

    def _chooses(self, word: Override) -> bool:
        """Whether it chooses an option of a group, as Hydra has it."""
        return self.files.group_exists(word.key_or_group) and not isinstance(word.value(), dict)

    def _chosen(self, words: tuple[str, ...]) -> DictConfig:
        self.files.begin()
        found = create_defaults_list(
            repo=self.files,
            config_name=self.name,
            overrides_list=[_parsed(word) for word in words],
            prepend_hydra=False,
            skip_missing=False,
        )
        config = self.loader._compose_config_from_defaults_list(found.defaults, self.files)
        config.pop("hydra", None)
        OmegaConf.set_struct(config, True)
        return config


class _Files(CachingConfigRepository):
    """Read once. Each composition has copies of its own, since Hydra merges into what it is given."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.group_exists = cache(super().group_exists)  # type: ignore[method-assign]
        self.begin()

    def begin(self) -> None:
        """Another composition."""
        self.given: dict[str, ConfigResult | None] = {}

    def load_config(self, config_path: str) -> ConfigResult | None:
        if config_path not in self.given:
            found = copy.copy(super().load_config(config_path))
            if found is not None:
                found.config = copy.deepcopy(found.config)
                found.defaults_list = [one for one in found.defaults_list or [] if not _of_hydra(one)]
            self.given[config_path] = found
        return self.given[config_path]


def _of_hydra(default: Any) -> bool:
    return isinstance(default, GroupDefault) and (default.group or "").startswith("hydra/")


@lru_cache(maxsize=4096)
def _parsed(word: str) -> Override:
    return OverridesParser.create().parse_overrides([word])[0]


@cache
def _own(hydra: tuple[str, ...]) -> Composer:
    version.setbase("1.3")
    return Composer(ConfigLoaderImpl(create_config_search_path(str(CONF))), hydra=hydra)


def experiment(words: Sequence[str]) -> Experiment:
    return check(_composed(words))


def dataset(words: Sequence[str]) -> tuple[Any, Path, Path]:
    """The data set that the words choose, and the folders of data and outputs."""
    return check_dataset(_composed(words))


def _composed(words: Sequence[str]) -> DictConfig:
    check_words(words)
    with composing():
        return _own(tuple(word for word in words if word.startswith("hydra.")))(words)
