"""Train what the overrides of `highway train` describe: Hydra composes, highway checks, a run or a sweep begins."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.plugins import Plugins
from hydra.types import HydraContext, RunMode
from omegaconf import OmegaConf

from highway.config.commented import commented
from highway.config.compose import as_experiment, compose, compose_with_hydra, loader, override_of
from highway.config.experiment import SWEEP_ONLY
from highway.config.groups import check_words, groups, offered, options
from highway.config.guard import check_hydra
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.ledger.identity import is_unread
from highway.machine import rank
from highway.tables.typed import command_line, quoted

LAUNCHED = "logger.group="  # set for each run of a sweep; a row may ignore what its table's recipe sets
EXIT_CODES = {"finished": 0, "failed": 1, "diverged": 3, "unwritable": 4, "interrupted": 130}
SETTINGS = """\
Groups and their options:
{groups}

Keys and their values, after the overrides on this command line:
{config}"""
log = logging.getLogger("highway")


def run(overrides: Sequence[str], typed: Sequence[str]) -> int:
    """Train one run and return the exit code of its end. `typed`: the command line, which the record repeats."""
    _show_messages()
    experiment = as_experiment(compose_with_hydra(overrides))  # with its section `hydra`, which is checked, too
    directory = RunDirectory.of(experiment)
    if not directory.path.exists():
        from highway.data.prepare import prepare_all

        prepare_all([experiment])  # before the directory exists, so that a mistake leaves no folder
    for override in () if LAUNCHED in " ".join(overrides) else overrides:
        if is_unread(experiment, override):
            log.warning("%s changes nothing: no part of this run reads it.", override)
    from highway import training  # imports torch, so not before the configuration is checked

    return EXIT_CODES[training.run(experiment, directory, command_line(typed))]


def sweep(overrides: Sequence[str]) -> None:
    """Train the runs of a table or of a grid."""
    _show_messages()
    check_words(overrides)
    config = compose_with_hydra(_of_the_sweep(overrides), RunMode.MULTIRUN)
    check_hydra(config.hydra)
    context = HydraContext(config_loader=loader(), callbacks=None)  # type: ignore[arg-type]  # there are none
    sweeper = Plugins.instance().instantiate_sweeper(hydra_context=context, task_function=lambda _: None, config=config)
    sweeper.sweep([override for override in overrides if not override_of(override).is_hydra_override()])


def configuration(overrides: Sequence[str], resolve: bool) -> str:
    """Return the composed configuration as YAML; resolve: replace interpolations by their values."""
    return OmegaConf.to_yaml(compose(overrides), resolve=resolve)


def settings(overrides: Sequence[str], multirun: bool) -> str:
    """Return the groups with their options, and the keys with their values and meanings after these overrides."""
    lines = (f"  {group}: {offered(group)}" for group in groups() if options(group))
    config = compose(_of_the_sweep(overrides) if multirun else overrides)
    return SETTINGS.format(groups="\n".join(lines), config=commented(config))


def with_folders(overrides: Sequence[str], folders: Sequence[Path]) -> list[str]:
    """Return the overrides with the folders of --config-dir, joined with those of hydra.searchpath."""
    sources = []
    for folder in folders:
        if not folder.is_dir():
            raise Refused(f"--config-dir {folder}: this folder is not found. Name a folder with options, as in gate/.")
        sources.append(f"file://{folder.resolve()}")
    if not sources:
        return [*overrides]
    others = []
    for override in overrides:
        value: Any = override_of(override).value() if override.startswith("hydra.searchpath=") else None
        joined = isinstance(value, list) and all(isinstance(source, str) for source in value)
        sources += value if joined else []
        others += [] if joined else [override]
    return [f"hydra.searchpath=[{','.join(map(quoted, sources))}]", *others]


def _show_messages() -> None:
    log.addHandler(logging.StreamHandler())
    log.setLevel(logging.INFO)
    rank()  # Lightning, when it is imported, fails on one that is no number


def _of_the_sweep(overrides: Sequence[str]) -> list[str]:
    """Return the overrides that concern a sweep as a whole: Hydra's own, folders, and options that all runs share.

    Values may be of keys that only some rows have.
    """

    def concerns(override: str) -> bool:
        read = override_of(override)
        key = read.key_or_group
        return read.is_hydra_override() or not (read.is_sweep_override() or "." in key or key in SWEEP_ONLY)

    return [*filter(concerns, overrides)]
