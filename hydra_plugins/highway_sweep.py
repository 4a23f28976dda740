"""A thin face: Hydra loads sweepers and launchers from a package of this name and from nowhere else."""

from highway.sweep import launch, local, sweeper


class HighwaySweeper(sweeper.HighwaySweeper):
    pass


class InlineLauncher(launch.InlineLauncher):
    pass


class LocalLauncher(local.LocalLauncher):
    pass
