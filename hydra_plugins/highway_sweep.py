"""The sweeper, the launchers and the group `layers`, as Hydra finds them: as classes of this module alone."""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins import config_source, search_path_plugin
from hydra.plugins.config_source import ConfigResult
from omegaconf import OmegaConf

from highway.cards.gated_layers import OPTIONS, option
from highway.config.project import confs
from highway.sweep import inline, local, ray, slurm, sweeper

LAYERS = "layers"


class HighwaySweeper(sweeper.HighwaySweeper):
    """hydra/sweeper=highway."""


class InlineLauncher(inline.InlineLauncher):
    """hydra/launcher=inline."""


class LocalLauncher(local.LocalLauncher):
    """hydra/launcher=local."""


class RayLauncher(ray.RayLauncher):
    """hydra/launcher=ray."""


class SlurmLauncher(slurm.SlurmLauncher):
    """hydra/launcher=slurm."""


class LayersSource(config_source.ConfigSource):
    """The options of the group `layers`, which have no files: each follows from its name. conf/ is asked first."""

    @staticmethod
    def scheme() -> str:
        return LAYERS

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return config_path.strip("/") == LAYERS

    def is_config(self, config_path: str) -> bool:
        return _option(config_path) is not None

    def load_config(self, config_path: str) -> ConfigResult:
        values = {"defaults": ["_neutral", "_self_"], **(_option(config_path) or {})}
        return ConfigResult(self.provider, self.full_path(), OmegaConf.create(values), {"package": None})

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        if self.is_group(config_path) and results_filter is not ObjectType.GROUP:
            return sorted(OPTIONS)
        return [LAYERS] if not config_path.strip("/") and results_filter is not ObjectType.CONFIG else []


class LayersSearchPath(search_path_plugin.SearchPathPlugin):
    """Adds the source, and the configurations of a project, to every search path."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append("highway", f"{LayersSource.scheme()}://")
        for conf in confs()[1:]:
            search_path.append("project", f"file://{conf}")


def _option(path: str) -> dict[str, str] | None:
    group, _, name = path.removesuffix(".yaml").partition("/")
    return option(name) if group == LAYERS else None
