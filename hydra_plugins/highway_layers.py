"""The configuration group `layers`, which has no files: each of its options follows from the option's name."""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from highway.config.layers import OPTIONS, option

GROUP = "layers"


class LayersSource(ConfigSource):
    """A source of configurations that makes `layers/<option>`; Hydra asks it after the files of conf/."""

    @staticmethod
    def scheme() -> str:
        return GROUP

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return config_path.strip("/") == GROUP

    def is_config(self, config_path: str) -> bool:
        return _option(config_path) is not None

    def load_config(self, config_path: str) -> ConfigResult:
        values = {"defaults": ["_neutral", "_self_"], **(_option(config_path) or {})}
        return ConfigResult(self.provider, self.full_path(), OmegaConf.create(values), {"package": None})

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        if self.is_group(config_path) and results_filter is not ObjectType.GROUP:
            return sorted(OPTIONS)
        return [GROUP] if not config_path.strip("/") and results_filter is not ObjectType.CONFIG else []


class LayersSearchPath(SearchPathPlugin):
    """Adds the source to every search path."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append("highway", f"{LayersSource.scheme()}://")


def _option(path: str) -> dict[str, str] | None:
    group, _, name = path.removesuffix(".yaml").partition("/")
    return option(name) if group == GROUP else None
