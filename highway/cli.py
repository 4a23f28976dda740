"""The command line of scripts/train.py: Hydra composes, we check, and every mistake gets one sentence.

Hydra raises its own errors before a task function runs, and prints them over several lines with exit
code 1. Here they are caught, said in one sentence, and end with exit code 2; debug=trace shows the trace.
"""

import argparse
import dataclasses
import logging
import math
import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hydra
import hydra._internal.hydra
from hydra._internal.utils import get_args_parser
from hydra.errors import HydraException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from highway.config.check import CONF, SWEEP_ONLY, check, kinds_of
from highway.config.compose import experiment as composed
from highway.config.guard import check_hydra, check_words, composing, options
from highway.errors import Refused, SweepFailed, as_typed, closest, listing
from highway.ledger.cell import Cell
from highway.sweep.launch import command_line
from highway.sweep.timed import is_timing, timing

EXIT_CODES = {"finished": 0, "failed": 1, "diverged": 3, "unwritable": 4, "interrupted": 130}
log = logging.getLogger("highway")


def train() -> None:
    """The entry point of scripts/train.py."""
    log.addHandler(logging.StreamHandler())
    log.setLevel(logging.INFO)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then hands us its exceptions and prints nothing itself
    OmegaConf.register_new_resolver("cell_dir", _cell_directory, replace=True)
    with one_sentence():
        _check_flags(sys.argv[1:])
        if is_timing(sys.argv[1:]):
            _time()
        if {"-m", "--multirun"} & set(sys.argv):
            sys.argv = [*map(_of_some_rows, sys.argv)]
        hydra._internal.hydra.Hydra = _GuardedHydra  # type: ignore[misc]
        hydra.main(version_base="1.3", config_path=str(CONF), config_name="train")(_task)()


class _GuardedHydra(hydra._internal.hydra.Hydra):
    """Every configuration of a command line is looked at before Hydra builds callbacks, logging or plugins from it."""

    def get_mode(self, config_name: str | None, overrides: list[str]) -> Any:
        return None  # -m says it; Hydra would compose everything once more for the key hydra.mode

    def compose_config(self, *about: Any, **more: Any) -> DictConfig:
        with composing():
            config = super().compose_config(*about, **{**more, "with_log_configuration": False})
        if more.get("with_log_configuration"):  # what is only shown (--cfg, --help) builds nothing
            check_hydra(config.hydra)
            _check_folders(config, more["run_mode"])
        return config


def _check_folders(config: DictConfig, mode: RunMode) -> None:
    """A launcher says where a cell is that it starts; nobody else can move one."""
    run, sweep = (OmegaConf.to_container(config.hydra[name], resolve=False) for name in ("run", "sweep"))
    moved = run != {"dir": "${cell_dir:}"}
    if moved and mode is RunMode.RUN:
        moved = Path(config.hydra.run.dir).resolve() != Cell.of(check(config)).directory.resolve()
    if moved or sweep != {"dir": "${outputs_dir}", "subdir": "."}:
        raise Refused("hydra.run.dir and hydra.sweep.dir cannot be set: outputs_dir=... says where cells are.")


def _of_some_rows(word: str) -> str:
    """Before a sweep Hydra composes the default run, which may lack keys that the rows have: `++` lets it have them."""
    return f"++{word}" if re.match(r"(?!hydra\.)\w+\.[\w.]+=", word) else word


def _task(config: DictConfig) -> None:
    with one_sentence():  # here, since Hydra would print a line of its own before it hands on what we raise
        experiment = check(config)
        cell = Cell.of(experiment)
        from highway.train import run  # imports torch: only now that the configuration is known to be right

        sys.exit(EXIT_CODES[run(experiment, cell, command_line(sys.argv[1:]))])


def _time() -> None:
    """A table of `kind: timing` without -m is one run of all its rows; Hydra composes each of them."""
    described = timing(sys.argv[1:], composed)
    from highway.run.timing import run

    sys.exit(EXIT_CODES[run(described, command_line(sys.argv[1:]))])


def _cell_directory(*, _root_: DictConfig) -> str:
    """hydra.run.dir of a run: checked first, and its data at hand, so that a mistake leaves no directory behind."""
    experiment = check(_root_)
    directory = Cell.of(experiment).directory
    if not directory.exists():
        from highway.run.beforehand import have_data

        have_data([experiment])
    return str(directory)


NOT_OURS = {
    "--config-path": "conf/ is where configurations are",
    "--config-name": "conf/train.yaml is what every run begins with",
    "--experimental-rerun": "the command in a cell's result.json runs it again",
}


def _check_flags(words: list[str]) -> None:
    """Hydra's own parser says what it does not understand over many lines."""
    parser = get_args_parser()
    known = [name for action in parser._actions for name in action.option_strings]
    for word in words:
        name = word.split("=", 1)[0]
        if name.startswith("-") and name not in known:
            near = closest(name, known)
            raise Refused(
                f"{name} is not a flag; settings are written without dashes, as in trainer.max_epochs=3.{near}"
            )
    parser.error = _refuse  # type: ignore[assignment]
    flags = parser.parse_args(words)
    for name, instead in NOT_OURS.items():
        if getattr(flags, name[2:].replace("-", "_")) is not None:
            raise Refused(f"{name} is not for this project: {instead}.")
    shown = [name for name in ("run", "multirun", "cfg", "info", "shell_completion") if getattr(flags, name)]
    if len(shown) > 1:
        raise Refused(f"--{shown[0]} and --{shown[1]} are two things to do: choose one of them.".replace("_", "-"))
    if (flags.resolve or flags.package) and not flags.cfg and not flags.help:
        raise Refused("--resolve and --package say how --cfg job shows the configuration: add --cfg job.")
    if flags.cfg is None and not flags.shell_completion:
        check_words(flags.overrides)


def _refuse(message: str) -> None:
    raise Refused(f"{message}.")


class Arguments(argparse.ArgumentParser):
    """Of the other scripts: what they do not understand is one sentence, too."""

    def __init__(self, about: str | None = None, **more: Any) -> None:
        layout = argparse.RawDescriptionHelpFormatter
        super().__init__(description=about, formatter_class=layout, allow_abbrev=False, **more)

    def error(self, message: str) -> Any:
        print(f"error: {message}.", file=sys.stderr)
        sys.exit(2)


def whole(low: int, high: int = 2**31 - 1) -> Callable[[str], int]:
    """A type of arguments: a whole number between bounds."""

    def read(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,20}", text) or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return read


def between(low: float, high: float, open_below: bool = False) -> Callable[[str], float]:
    """A type of arguments: a number between bounds, none of which is infinite."""

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


def outputs_folder() -> Path:
    """Where cells and reports are, for the scripts that compose nothing."""
    return Path(os.environ.get("HIGHWAY_OUTPUTS") or "outputs")


class one_sentence:  # noqa: N801 (reads as what it does: `with one_sentence():`)
    """Turns what a user can mend into one sentence on stderr and exit code 2."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: Any) -> None:
        if isinstance(error, KeyboardInterrupt):
            print("interrupted: the same command goes on from here.", file=sys.stderr)
            sys.exit(130)
        if isinstance(error, SweepFailed):
            print(f"error: {error}", file=sys.stderr)
            sys.exit(1)
        if isinstance(error, BrokenPipeError):  # of `... | head`: nobody reads on
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        if error is None or not isinstance(error, Refused | HydraException | OmegaConfBaseException | OSError):
            return
        if "debug=trace" in sys.argv:
            traceback.print_exception(error)
        print(f"error: {sentence(error)}", file=sys.stderr)
        sys.exit(2)


def sentence(error: BaseException) -> str:
    """The one sentence that an exception stands for: ours as it is, Hydra's and OmegaConf's in our words."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:  # it may go in a circle
        chain.append(cause)
    for link in chain:
        if isinstance(link, Refused):
            return " ".join(str(link).split())
    if isinstance(error, OSError) and not isinstance(error, HydraException):  # some of Hydra's are both
        return f"{error.filename or 'a file'} cannot be used: {error.strerror or error}."
    for link in reversed(chain):  # the innermost knows most
        if isinstance(link, OverrideParseException):
            return f"{as_typed(link.override)} could not be read: settings are written key=value, as in gate=sdu_tanh."
        for kind, say in _SAYINGS:
            if isinstance(link, kind) and (said := say(str(link))):
                return said
    return " ".join(str(chain[-1]).split()) or type(chain[-1]).__name__


def _unknown_option(message: str) -> str | None:
    """Hydra: Could not find 'gate/x' ... Available options in 'gate': a b c."""
    match = re.search(r"(?:Could not find|In '.*?': Could not (?:find|load)) '([\w/]+?)/([^/']+)'", message)
    if match is None:
        return None
    group, option = match[1], match[2]
    known = options(group)
    return f"{group}={option} does not exist; {group} has {listing(known)}.{closest(option, known)}"


def _unknown_key(message: str) -> str | None:
    """Hydra: Could not override 'a.b'. ... Key 'b' is not in struct."""
    match = re.search(r"Could not (?:override|append to config\.|delete from config\.)? ?'([^']+)'", message)
    if match is None:
        return None
    key = match[1]
    groups = sorted(path.name for path in CONF.iterdir() if path.is_dir())
    known = [*groups, "seed", "data_dir", "outputs_dir", *SWEEP_ONLY]
    if "." not in key:
        return f"{key} is neither a key nor a group; there are {listing(known)}.{closest(key, known)}"
    parent, name = key.rsplit(".", 1)
    keys = _keys_of(parent)
    if not keys:
        return f"{key} is not a key.{closest(parent, known)}"
    return f"{key} is not a key; {parent} has {listing(keys)}.{closest(name, keys)}"


def _keys_of(parent: str) -> list[str]:
    """What stands below a key, of every model or task where that depends on which."""
    section, *rest = parent.split(".")
    kinds = kinds_of(section)
    for name in rest:
        below = [item.type for kind in kinds for item in dataclasses.fields(kind) if item.name == name]
        kinds = [kind for kind in below if dataclasses.is_dataclass(kind)]
    return list(dict.fromkeys(item.name for kind in kinds for item in dataclasses.fields(kind)))


def _several_values(message: str) -> str | None:
    """Hydra: Ambiguous value for argument 'gate=none,sdu_tanh' ..."""
    match = re.search(r"Ambiguous value for argument '(.+?)'\n", message)
    return f"{match[1]} names several values: add -m to run each of them." if match else None


_SAYINGS: list[tuple[type[BaseException], Callable[[str], str | None]]] = [
    (HydraException, _several_values),
    (HydraException, _unknown_option),
    (HydraException, _unknown_key),
]
