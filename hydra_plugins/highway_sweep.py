"""A thin face: Hydra loads sweepers and launchers from a package of this name and from nowhere else."""

from typing import Any

from highway.sweep import launch, local, ray, slurm, sweeper


class HighwaySweeper(sweeper.HighwaySweeper):
    """Is handed what tells how a sweep ended, what one would take, and what has its data at hand."""

    def tell(self, *about: Any) -> None:
        from rich.console import Console

        from highway.report.tell import tell

        tell(*about, Console())

    def foresee(self, *about: Any) -> None:
        from rich.console import Console

        from highway.audit.plan import foresee

        foresee(*about, Console())

    def have_data(self, *about: Any) -> None:
        from highway.run.beforehand import have_data
        from highway.run.cautions import warn

        have_data(*about)
        warn(*about)


class InlineLauncher(launch.InlineLauncher):
    """Is handed what runs a cell, and a timing; torch is imported when one does."""

    def run(self, *about: Any) -> str:
        from highway.train import run

        return run(*about)

    def time_rows(self, *about: Any) -> str:
        from highway.run.timing import run

        return run(*about)


class LocalLauncher(local.LocalLauncher):
    pass


class RayLauncher(ray.RayLauncher):
    pass


class SlurmLauncher(slurm.SlurmLauncher):
    pass
