"""The sweeper and launchers as Hydra finds them: it loads plugins only from a package of this name."""

from typing import Any

from highway.sweep import launch, local, ray, slurm, sweeper


class HighwaySweeper(sweeper.HighwaySweeper):
    """The sweeper with the functions of other rooms: the report, the cost estimate, and the download of data."""

    def tell(self, *arguments: Any) -> None:
        from rich.console import Console

        from highway.report.publish import publish

        publish(*arguments, Console())

    def foresee(self, *arguments: Any) -> None:
        from rich.console import Console

        from highway.preview.plan import foresee

        foresee(*arguments, Console())

    def have_data(self, *arguments: Any) -> None:
        from highway.run.beforehand import have_data
        from highway.run.cautions import warn

        have_data(*arguments)
        warn(*arguments)


class InlineLauncher(launch.InlineLauncher):
    """The inline launcher with the functions that train a run and a timing; torch is imported when one is called."""

    def run(self, *arguments: Any) -> str:
        from highway.train import run

        return run(*arguments)

    def time_rows(self, *arguments: Any) -> str:
        from highway.timing import run

        return run(*arguments)


class LocalLauncher(local.LocalLauncher):
    """hydra/launcher=local."""


class RayLauncher(ray.RayLauncher):
    """hydra/launcher=ray."""


class SlurmLauncher(slurm.SlurmLauncher):
    """hydra/launcher=slurm."""
