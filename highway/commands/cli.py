"""The command line of `highway train`: Hydra composes a configuration, highway checks it, mistakes get one line each.

Hydra prints its own errors over several lines and exits with code 1. This module catches them, prints one line and
exits with code 2; debug=trace also prints the stack trace.
"""

import logging
import os
import re
import sys
from pathlib import Path

from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from highway.commands.arguments import one_sentence
from highway.commands.helps import ending
from highway.config import compose
from highway.config.check import check
from highway.config.commented import commented
from highway.config.groups import check_words, groups, offered, options
from highway.config.guard import check_hydra
from highway.errors import Refused, closest
from highway.files.device import rank
from highway.ledger.directory import RunDirectory
from highway.ledger.identity import is_unread
from highway.sweep.shell import command_line

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
log = logging.getLogger("highway")


def train() -> None:
    """Run `highway train`."""
    log.addHandler(logging.StreamHandler())
    log.setLevel(logging.INFO)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then hands us its exceptions and prints nothing itself
    OmegaConf.register_new_resolver("run_directory", _run_directory, replace=True)
    OmegaConf.register_new_resolver("help_of_train", _help, replace=True)
    with one_sentence():
        rank()  # Lightning, when it is imported, fails on one that is no number
        _check_flags(sys.argv[1:])
        if {"-m", "--multirun"} & set(sys.argv):
            sys.argv = [*map(_of_some_rows, sys.argv)]
        compose.command_line(_task, _checked)


def _help(_root_: DictConfig) -> str:
    """Return the template of Hydra's help, in which `$$` stands for `$`."""
    config = commented(OmegaConf.masked_copy(_root_, [str(key) for key in _root_ if key != "hydra"]))
    lines = (f"  {group}: {offered(group)}" for group in groups() if options(group))
    return (HELP.format(groups="\n".join(lines), config=config) + ending("train")).replace("$", "$$")


def _checked(config: DictConfig, mode: RunMode) -> None:
    """Refuse dangerous settings of Hydra, and hydra.run.dir and hydra.sweep.dir.

    A launcher may set hydra.run.dir to the directory that the run has anyway.
    """
    check_hydra(config.hydra)
    run, sweep = (OmegaConf.to_container(config.hydra[name], resolve=False) for name in ("run", "sweep"))
    run_moved = run != {"dir": "${run_directory:}"}
    if run_moved and mode is RunMode.RUN:
        run_moved = Path(config.hydra.run.dir).resolve() != RunDirectory.of(check(config)).path.resolve()
    if run_moved or sweep != {"dir": "${outputs_dir}", "subdir": "."}:
        raise Refused(
            "hydra.run.dir and hydra.sweep.dir cannot be set. Write outputs_dir=FOLDER to choose where runs are kept."
        )


def _of_some_rows(argument: str) -> str:
    """Prefix an override with `++`: before a sweep Hydra composes the default run, which may lack keys of the rows."""
    return f"++{argument}" if re.match(r"(?!hydra\.)\w+\.[\w.]+=", argument) else argument


def _task(config: DictConfig) -> None:
    with one_sentence():  # inside the task, since Hydra prints a line of its own before it re-raises
        experiment = check(config)
        directory = RunDirectory.of(experiment)
        for override in () if LAUNCHED in " ".join(sys.argv) else sys.argv[1:]:
            if is_unread(experiment, override):
                log.warning("%s changes nothing: no part of this run reads it.", override)
        from highway.train import run  # imports torch, so not before the configuration is checked

        sys.exit(EXIT_CODES[run(experiment, directory, command_line(sys.argv[1:]))])


def _run_directory(*, _root_: DictConfig) -> str:
    """Return a run's directory for hydra.run.dir; check it and fetch its data first, so mistakes leave no folder."""
    experiment = check(_root_)
    directory = RunDirectory.of(experiment).path
    if not directory.exists():
        from highway.run.beforehand import have_data

        have_data([experiment])
    return str(directory)


NOT_OURS = {
    "--config-path": "configurations are read from conf/",
    "--hydra-help": "it describes Hydra itself; type highway train --help",
    "--config-name": "every run starts from conf/train.yaml",
    "--experimental-rerun": "type the command in result.json to repeat a run",
}


SETTINGS = {"--dry-run": "plan=true", "--dryrun": "plan=true"}  # a flag of other programs -> our setting


def _check_flags(arguments: list[str]) -> None:
    """Refuse unknown flags, and flags that do not fit together; Hydra's own parser prints many lines."""
    parser = compose.flags()
    known = [name for action in parser._actions for name in action.option_strings]
    for argument in arguments:
        name = argument.split("=", 1)[0]
        if name.startswith("-") and name not in known:
            hint = f" Did you mean {SETTINGS[name]}?" if name in SETTINGS else closest(name, known)
            raise Refused(f"{name} is not a flag.{hint} Write settings without dashes, as in trainer.max_epochs=3.")
    parser.error = _refuse  # type: ignore[assignment]
    flags = parser.parse_args(arguments)
    for name, reason in NOT_OURS.items():
        if getattr(flags, name[2:].replace("-", "_")):
            raise Refused(f"{name} cannot be used here: {reason}.")
    shown = [name for name in ("run", "multirun", "cfg", "info", "shell_completion") if getattr(flags, name)]
    if len(shown) > 1:
        raise Refused(f"--{shown[0]} and --{shown[1]} cannot be combined: choose one of them.".replace("_", "-"))
    if (flags.resolve or flags.package) and not flags.cfg and not flags.help:
        raise Refused("--resolve and --package only change what --cfg job prints: add --cfg job.")
    if flags.cfg is None and not flags.shell_completion:
        check_words(flags.overrides)


def _refuse(message: str) -> None:
    unknown = "unrecognized arguments" in message
    hint = " Write flags such as -cd FOLDER before or after all settings." if unknown else ""
    raise Refused(f"{message}.{hint}")
