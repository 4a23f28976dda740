"""Compose an experiment from overrides, for everything but training: sweeps, reports, tables, data, tests."""

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

# Groups whose option files list only their differences from the neutral defaults.
NEUTRAL = ("gate", "layers", "optimizer", "trainer", "logger", "debug")

for group in NEUTRAL:
    ConfigStore.instance().store("_neutral", dataclasses.asdict(SECTIONS[group]()), group)


class Composer:
    """A composer like Hydra's, without the `hydra` section, which takes most of Hydra's time.

    It reads each file once and composes each choice of groups once. Hydra then sets the values on a copy, because
    values do not change which files are read.
    """

    def __init__(self, loader: ConfigLoaderImpl, name: str = "train", hydra: Sequence[str] = ()) -> None:
        """Prepare the search path; `hydra` holds overrides of Hydra's own keys, which may extend it."""
        self.loader, self.name, self.files = loader, name, _Files(loader.repository)
        loader._process_config_searchpath(name, [_parsed(override) for override in hydra], self.files)
        self.chosen = lru_cache(maxsize=64)(self._chosen)

    def __call__(self, overrides: Sequence[str]) -> DictConfig:
        parsed = [override for override in map(_parsed, overrides) if not override.is_hydra_override()]
        self.loader.validate_sweep_overrides_legal(parsed, RunMode.RUN, from_shell=True)
        groups = tuple(str(override.input_line) for override in parsed if self._chooses(override))
        config = copy.deepcopy(self.chosen(groups))
        values = [override for override in parsed if not self._chooses(override)]
        self.loader._apply_overrides_to_config(values, config)
        return config

    def _chooses(self, override: Override) -> bool:
        """Return True if the override chooses an option of a group, by Hydra's rule."""
        return self.files.group_exists(override.key_or_group) and not isinstance(override.value(), dict)

    def _chosen(self, overrides: tuple[str, ...]) -> DictConfig:
        self.files.begin()
        composed = create_defaults_list(
            repo=self.files,
            config_name=self.name,
            overrides_list=[_parsed(override) for override in overrides],
            prepend_hydra=False,
            skip_missing=False,
        )
        config = self.loader._compose_config_from_defaults_list(composed.defaults, self.files)
        config.pop("hydra", None)
        OmegaConf.set_struct(config, True)
        return config


class _Files(CachingConfigRepository):
    """Configuration files, read once. Each composition gets its own copies, because Hydra merges into its inputs."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.group_exists = cache(super().group_exists)  # type: ignore[method-assign]
        self.begin()

    def begin(self) -> None:
        """Start another composition, with fresh copies."""
        self.given: dict[str, ConfigResult | None] = {}

    def load_config(self, config_path: str) -> ConfigResult | None:
        if config_path not in self.given:
            file = copy.copy(super().load_config(config_path))
            if file is not None:
                file.config = copy.deepcopy(file.config)
                file.defaults_list = [default for default in file.defaults_list or [] if not _of_hydra(default)]
            self.given[config_path] = file
        return self.given[config_path]


def _of_hydra(default: Any) -> bool:
    return isinstance(default, GroupDefault) and (default.group or "").startswith("hydra/")


@lru_cache(maxsize=4096)
def _parsed(override: str) -> Override:
    return OverridesParser.create().parse_overrides([override])[0]


@cache
def _composer(hydra: tuple[str, ...]) -> Composer:
    version.setbase("1.3")
    return Composer(ConfigLoaderImpl(create_config_search_path(str(CONF))), hydra=hydra)


def experiment(overrides: Sequence[str]) -> Experiment:
    """Return the checked experiment that the overrides describe."""
    return check(_composed(overrides))


def dataset(overrides: Sequence[str]) -> tuple[Any, Path, Path]:
    """Return the data set that the overrides choose, data_dir and outputs_dir."""
    return check_dataset(_composed(overrides))


def _composed(overrides: Sequence[str]) -> DictConfig:
    check_words(overrides)
    with composing():
        return _composer(tuple(override for override in overrides if override.startswith("hydra.")))(overrides)
