"""The command line of `highway train`: Hydra composes a configuration, highway checks it, mistakes get one line each.

debug=trace also prints the stack trace of a mistake.
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.plugins import Plugins
from hydra.plugins.completion_plugin import CompletionPlugin
from hydra.types import HydraContext, RunMode
from omegaconf import OmegaConf

from highway.commands.arguments import Arguments, one_sentence
from highway.commands.helps import ending
from highway.config.check import check
from highway.config.commented import commented
from highway.config.compose import PRIMARY, compose, compose_with_hydra, loader, override_of
from highway.config.groups import check_words, groups, offered, options
from highway.config.guard import check_hydra
from highway.config.sections import SWEEP_ONLY
from highway.errors import Refused, closest
from highway.files.device import rank
from highway.ledger.directory import RunDirectory
from highway.ledger.identity import is_unread
from highway.sweep.typed import command_line, quoted

LAUNCHED = "logger.group="  # set for each run of a sweep; a row may ignore what its table's recipe sets
EXIT_CODES = {"finished": 0, "failed": 1, "diverged": 3, "unwritable": 4, "interrupted": 130}
HELP = """\
Train a model, or with -m every run of a table or of a grid that is missing.

usage: highway train [-m] [GROUP=OPTION ...] [KEY=VALUE ...]

A run that has finished is not repeated; one that was stopped is resumed. Flags: -m (a sweep), --cfg job (print the
configuration), -cd FOLDER (your own options), -h. Launchers of a sweep: hydra/launcher=local|slurm|ray|inline.
What a table contains: highway table explain TABLE.

groups and their options:
{groups}

keys and their values, after the overrides on this command line:
{config}

"""
SETTINGS = {"--dry-run": "plan=true", "--dryrun": "plan=true"}  # a flag of other programs -> our setting
log = logging.getLogger("highway")


def train() -> None:
    """Run `highway train`."""
    log.addHandler(logging.StreamHandler())
    log.setLevel(logging.INFO)
    with one_sentence():
        rank()  # Lightning, when it is imported, fails on one that is no number
        flags = _flags(sys.argv[1:])
        overrides = _with_folders(flags.overrides, flags.config_dir)
        if flags.shell_completion:
            _complete(flags.shell_completion.removeprefix("query="))
        elif flags.help:
            print(_help(_of_the_sweep(overrides) if flags.multirun else overrides))
        elif flags.cfg:
            print(OmegaConf.to_yaml(compose(overrides), resolve=flags.resolve), end="")
        elif flags.multirun:
            _sweep(overrides)
        else:
            _run(overrides)


def _run(overrides: Sequence[str]) -> None:
    """Train one run, and exit with the code of its end."""
    experiment = check(compose_with_hydra(overrides))
    directory = RunDirectory.of(experiment)
    if not directory.path.exists():
        from highway.run.beforehand import have_data

        have_data([experiment])  # before the directory exists, so that a mistake leaves no folder
    for override in () if LAUNCHED in " ".join(overrides) else overrides:
        if is_unread(experiment, override):
            log.warning("%s changes nothing: no part of this run reads it.", override)
    from highway.training import run  # imports torch, so not before the configuration is checked

    sys.exit(EXIT_CODES[run(experiment, directory, command_line(sys.argv[1:]))])


def _sweep(overrides: Sequence[str]) -> None:
    """Train the runs of a table or of a grid."""
    check_words(overrides)
    config = compose_with_hydra(_of_the_sweep(overrides), RunMode.MULTIRUN)
    check_hydra(config.hydra)
    context = HydraContext(config_loader=loader(), callbacks=None)  # type: ignore[arg-type]  # there are none
    sweeper = Plugins.instance().instantiate_sweeper(hydra_context=context, task_function=lambda _: None, config=config)
    sweeper.sweep([override for override in overrides if not override_of(override).is_hydra_override()])


def _of_the_sweep(overrides: Sequence[str]) -> list[str]:
    """Return the overrides that concern a sweep as a whole: Hydra's own, folders, and options that all runs share.

    Values may be of keys that only some rows have.
    """

    def concerns(override: str) -> bool:
        read = override_of(override)
        key = read.key_or_group
        return read.is_hydra_override() or not (read.is_sweep_override() or "." in key or key in SWEEP_ONLY)

    return [*filter(concerns, overrides)]


def _help(overrides: Sequence[str]) -> str:
    lines = (f"  {group}: {offered(group)}" for group in groups() if options(group))
    return HELP.format(groups="\n".join(lines), config=commented(compose(overrides))) + ending("train")


def _complete(shell: str) -> None:
    """Print what Hydra offers to complete the command line of $COMP_LINE with."""
    plugins: Any = Plugins.instance().discover(CompletionPlugin)
    for plugin in plugins:
        if plugin.provides() == shell:
            plugin(loader()).query(PRIMARY)


def _with_folders(overrides: list[str], folders: list[str]) -> list[str]:
    """Return the overrides with the folders of --config-dir, joined with those of hydra.searchpath."""
    sources = []
    for folder in folders:
        if not Path(folder).is_dir():
            raise Refused(f"--config-dir {folder}: this folder is not found. Name a folder with options, as in gate/.")
        sources.append(f"file://{Path(folder).resolve()}")
    if not sources:
        return overrides
    others = []
    for override in overrides:
        value: Any = override_of(override).value() if override.startswith("hydra.searchpath=") else None
        joined = isinstance(value, list) and all(isinstance(source, str) for source in value)
        sources += value if joined else []
        others += [] if joined else [override]
    return [f"hydra.searchpath=[{','.join(map(quoted, sources))}]", *others]


def _flags(arguments: list[str]) -> argparse.Namespace:
    """Read the command line; refuse an unknown flag."""
    parser = Arguments(add_help=False)
    shown = parser.add_mutually_exclusive_group()
    flags = [
        shown.add_argument("-m", "--multirun", action="store_true"),
        shown.add_argument("-c", "--cfg", choices=["job"]),
        parser.add_argument("--resolve", action="store_true"),
        parser.add_argument("-cd", "--config-dir", action="append", default=[]),
        parser.add_argument("-sc", "--shell_completion", choices=["query=bash", "query=zsh", "query=fish"]),
        parser.add_argument("-h", "--help", action="store_true"),
    ]
    parser.add_argument("overrides", nargs="*")
    known = [name for flag in flags for name in flag.option_strings]
    for argument in arguments:
        name = argument.split("=", 1)[0]
        if name.startswith("-") and name not in known:
            hint = f" Did you mean {SETTINGS[name]}?" if name in SETTINGS else closest(name, known)
            raise Refused(f"{name} is not a flag.{hint} Write settings without dashes, as in trainer.max_epochs=3.")
    read = parser.parse_intermixed_args(arguments)
    if read.resolve and not read.cfg:
        raise Refused("--resolve only changes what --cfg job prints: add --cfg job.")
    return read
