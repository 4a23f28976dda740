"""The command line of `highway train`: Hydra composes a configuration, highway checks it, mistakes get one line each.

Hydra prints its own errors over several lines and exits with code 1. This module catches them, prints one line and
exits with code 2; debug=trace also prints the stack trace.
"""

import argparse
import logging
import math
import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from highway.config import compose
from highway.config.check import check
from highway.config.guard import check_hydra, check_words
from highway.config.sentences import sentence
from highway.errors import Refused, SweepFailed, closest
from highway.files.device import rank
from highway.ledger.directory import RunDirectory
from highway.ledger.identity import ignored
from highway.sweep.launch import command_line
from highway.sweep.timed import is_timing, timing

LAUNCHED = "logger.group="  # set for each run of a sweep; a row may ignore what its table's recipe sets
EXIT_CODES = {"finished": 0, "failed": 1, "diverged": 3, "unwritable": 4, "interrupted": 130}
log = logging.getLogger("highway")


def train() -> None:
    """Run `highway train`."""
    log.addHandler(logging.StreamHandler())
    log.setLevel(logging.INFO)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then hands us its exceptions and prints nothing itself
    OmegaConf.register_new_resolver("run_directory", _run_directory, replace=True)
    with one_sentence():
        rank()  # Lightning, when it is imported, fails on one that is no number
        _check_flags(sys.argv[1:])
        if is_timing(sys.argv[1:]):
            _time()
        if {"-m", "--multirun"} & set(sys.argv):
            sys.argv = [*map(_of_some_rows, sys.argv)]
        compose.command_line(_task, _checked)


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
            if ignored(experiment, override):
                log.warning("%s changes nothing: no part of this run reads it.", override)
        from highway.train import run  # imports torch, so not before the configuration is checked

        sys.exit(EXIT_CODES[run(experiment, directory, command_line(sys.argv[1:]))])


def _time() -> None:
    """Run a table of `kind: timing` without -m: one run of all its rows, each composed by Hydra."""
    described = timing(sys.argv[1:], compose.experiment)
    from highway.timing import run

    sys.exit(EXIT_CODES[run(described, command_line(sys.argv[1:]))])


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


def _check_flags(arguments: list[str]) -> None:
    """Refuse unknown flags, and flags that do not fit together; Hydra's own parser prints many lines."""
    parser = compose.flags()
    known = [name for action in parser._actions for name in action.option_strings]
    for argument in arguments:
        name = argument.split("=", 1)[0]
        if name.startswith("-") and name not in known:
            hint = closest(name, known)
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
    raise Refused(f"{message}.")


class Arguments(argparse.ArgumentParser):
    """The argument parser of the other scripts, which reports a mistake in one line."""

    def __init__(self, description: str | None = None, **options: Any) -> None:
        layout = argparse.RawDescriptionHelpFormatter
        super().__init__(description=description, formatter_class=layout, allow_abbrev=False, **options)

    def error(self, message: str) -> Any:
        print(f"error: {message}.", file=sys.stderr)
        sys.exit(2)


WITH: dict[str, Any] = {  # the flag --with of scripts that show rows
    "nargs": "+",
    "default": (),
    "dest": "added",
    "metavar": "KEY=VALUE",
    "help": "also the rows as a sweep with these overrides trains them",
}


def whole(low: int, high: int = 2**31 - 1) -> Callable[[str], int]:
    """Return an argument type: a whole number from low to high."""

    def read(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,20}", text) or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return read


def between(low: float, high: float, open_below: bool = False) -> Callable[[str], float]:
    """Return an argument type: a number from low to high, without low if open_below."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high or (open_below and value == low):
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a number {'above' if open_below else 'from'} {low:g} up to {high:g}"
            )
        return value

    return read


class one_sentence:  # noqa: N801 (reads as what it does: `with one_sentence():`)
    """A context that turns errors which a user can fix into one line on stderr and exit code 2."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, KeyboardInterrupt):
            print("interrupted. Type the same command again to resume.", file=sys.stderr)
            sys.exit(130)
        if isinstance(error, SweepFailed):
            print(f"error: {error}", file=sys.stderr)
            sys.exit(1)
        if isinstance(error, BrokenPipeError):  # the reader has gone, as in `... | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        if error is None or not isinstance(error, Refused | HydraException | OmegaConfBaseException | OSError):
            return
        if "debug=trace" in sys.argv:
            traceback.print_exception(error)
        print(f"error: {sentence(error)}", file=sys.stderr)
        sys.exit(2)
