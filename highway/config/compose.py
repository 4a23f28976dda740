"""Compose configurations with Hydra. No other module does, and no other uses private parts of Hydra.

Sweeps, reports and scripts use `Composer`, which also says which file set each key. A single run and `-m` start with
`command_line`, so that Hydra's own flags work. A test fails with any version of Hydra other than CHECKED_WITH.
"""

import copy
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import hydra
import hydra._internal.hydra
from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, ConfigRepository
from hydra._internal.defaults_list import create_defaults_list
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.config_store import ConfigStore
from hydra.core.default_element import GroupDefault, ResultDefault
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from highway.config.check import check, check_dataset, flat, joined
from highway.config.experiment import Experiment
from highway.config.groups import check_words
from highway.config.guard import composing
from highway.config.home import CONF
from highway.config.sections import SECTIONS
from highway.config.yaml_file import read_yaml

CHECKED_WITH = "1.3"  # the version of Hydra for which this module was written
NEUTRAL = "the neutral default"
# Groups whose option files list only their differences from the neutral defaults.
WITH_NEUTRAL = ("gate", "layers", "optimizer", "trainer", "logger", "debug")

load_config = ConfigRepository.load_config


def _load_checked(repository: ConfigRepository, config_path: str) -> ConfigResult | None:
    """Check the text of a configuration file before Hydra reads it."""
    source = repository._find_object_source(config_path, ObjectType.CONFIG)
    if source is not None and source.scheme() == "file":
        read_yaml(Path(source.path) / f"{config_path.removesuffix('.yaml')}.yaml")
    return load_config(repository, config_path)


ConfigRepository.load_config = _load_checked  # type: ignore[method-assign, assignment]

for group in WITH_NEUTRAL:
    ConfigStore.instance().store("_neutral", SECTIONS[group]().model_dump(), group)


class Composer:
    """A composer like Hydra's, without the `hydra` section, which takes most of Hydra's time.

    It reads each file once and composes each choice of groups once. Hydra then sets the values on a copy, because
    values do not change which files are read.
    """

    def __init__(self, loader: ConfigLoaderImpl, name: str = "train", of_hydra: Sequence[str] = ()) -> None:
        """Prepare the search path; `of_hydra` holds overrides of Hydra's own keys, which may extend it."""
        self.loader, self.name, self.files = loader, name, _Files(loader.repository)
        loader._process_config_searchpath(name, [_parsed(override) for override in of_hydra], self.files)
        self.listed, self.chosen = lru_cache(maxsize=64)(self._listed), lru_cache(maxsize=64)(self._chosen)

    def __call__(self, overrides: Sequence[str]) -> DictConfig:
        groups, values = self._split(overrides)
        config = copy.deepcopy(self.chosen(groups))
        self.loader._apply_overrides_to_config(values, config)
        return config

    def origins(self, overrides: Sequence[str]) -> dict[str, str]:
        """Return for each key of the composed configuration the file or the override that set it last."""
        groups, values = self._split(overrides)
        chosen = {override.replace("=", "/", 1): override for override in groups}
        origins: dict[str, str] = {}
        for default in self.listed(groups):
            path = str(default.config_path)
            file = self.files.fresh(path)
            if file is None or path.startswith("hydra"):
                continue
            source = NEUTRAL if path.endswith("/_neutral") else f"conf/{path}.yaml"
            if file.provider == "highway":  # an option of the group `layers`, which has no files
                source = chosen.get(path, "conf/train.yaml")
            content: Any = OmegaConf.to_container(file.config, resolve=False)
            origins |= {joined(default.package or "", key): source for key in flat(content)}
        for override in values:
            value = override.value()
            keys = flat({override.key_or_group: value}) if isinstance(value, dict) else [override.key_or_group]
            origins |= dict.fromkeys(keys, str(override.input_line))
        return origins

    def choices(self, overrides: Sequence[str]) -> dict[str, str]:
        """Return the chosen option of each group."""
        files = [str(default.config_path) for default in self.listed(self._split(overrides)[0])]
        return {group: name for group, _, name in (file.rpartition("/") for file in files) if name != "_neutral"}

    def _split(self, overrides: Sequence[str]) -> tuple[tuple[str, ...], list[Override]]:
        """Split overrides into those that choose an option of a group and those that set a value."""
        parsed = [override for override in map(_parsed, overrides) if not override.is_hydra_override()]
        self.loader.validate_sweep_overrides_legal(parsed, RunMode.RUN, from_shell=True)
        groups = tuple(str(override.input_line) for override in parsed if self._chooses(override))
        return groups, [override for override in parsed if not self._chooses(override)]

    def _chooses(self, override: Override) -> bool:
        """Return True if the override chooses an option of a group, by Hydra's rule."""
        return self.files.group_exists(override.key_or_group) and not isinstance(override.value(), dict)

    def _listed(self, groups: tuple[str, ...]) -> list[ResultDefault]:
        """Return the files that a choice of groups reads, in Hydra's order."""
        self.files.begin()
        return create_defaults_list(
            repo=self.files,
            config_name=self.name,
            overrides_list=[_parsed(override) for override in groups],
            prepend_hydra=False,
            skip_missing=False,
        ).defaults

    def _chosen(self, groups: tuple[str, ...]) -> DictConfig:
        """Compose a choice of groups."""
        files = self.listed(groups)
        self.files.begin()
        config = self.loader._compose_config_from_defaults_list(files, self.files)
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
            self.given[config_path] = self.fresh(config_path)
        return self.given[config_path]

    def fresh(self, config_path: str) -> ConfigResult | None:
        """Return a copy of a file as it was read."""
        file = copy.copy(super().load_config(config_path))
        if file is not None:
            file.config = copy.deepcopy(file.config)
            file.defaults_list = [default for default in file.defaults_list or [] if not _of_hydra(default)]
        return file


def _of_hydra(default: object) -> bool:
    return isinstance(default, GroupDefault) and (default.group or "").startswith("hydra/")


@lru_cache(maxsize=4096)
def _parsed(override: str) -> Override:
    return OverridesParser.create().parse_overrides([override])[0]


@cache
def composer(of_hydra: tuple[str, ...] = (), name: str = "train") -> Composer:
    """Return the composer of conf/NAME.yaml, with overrides of Hydra's own keys, which may extend the search path."""
    version.setbase("1.3")
    return Composer(ConfigLoaderImpl(create_config_search_path(str(CONF))), name, of_hydra)


def experiment(overrides: Sequence[str]) -> Experiment:
    """Return the checked experiment that the overrides describe."""
    return check(_composed(overrides))


def dataset(overrides: Sequence[str]) -> tuple[Any, Path, Path]:
    """Return the data set that the overrides choose, data_dir and outputs_dir."""
    return check_dataset(_composed(overrides))


def option(group: str, name: str, of_hydra: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the content of an option of a group, with the options that it builds on."""
    composed = composer(of_hydra, f"{group}/{name}")([])
    content: Any = OmegaConf.to_container(composed, resolve=False)
    return dict(content[group])


def _composed(overrides: Sequence[str]) -> DictConfig:
    check_words(overrides)
    with composing():
        return composer(tuple(override for override in overrides if override.startswith("hydra.")))(overrides)


class GuardedHydra(hydra._internal.hydra.Hydra):
    """A Hydra that checks every configuration before it builds callbacks, logging or plugins from it."""

    checked: Callable[[DictConfig, RunMode], None]

    def get_mode(self, config_name: str | None, overrides: list[str]) -> Any:
        """Return None, so that only -m decides; Hydra would compose everything again to read hydra.mode."""
        return None

    def compose_config(self, *positional: Any, **named: Any) -> DictConfig:
        with composing():
            config = super().compose_config(*positional, **{**named, "with_log_configuration": False})
        if named.get("with_log_configuration"):  # --cfg and --help only print, and build nothing
            self.checked(config, named["run_mode"])
        return config


def command_line(task: Callable[[DictConfig], None], checked: Callable[[DictConfig, RunMode], None]) -> None:
    """Run Hydra's command line: compose, check, then call the task, or with -m the sweeper."""
    GuardedHydra.checked = staticmethod(checked)
    hydra._internal.hydra.Hydra = GuardedHydra  # type: ignore[misc]
    hydra.main(version_base="1.3", config_path=str(CONF), config_name="train")(task)()


def flags() -> ArgumentParser:
    """Return the parser of Hydra's own flags."""
    return get_args_parser()
