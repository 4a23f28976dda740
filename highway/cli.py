"""The command line of scripts/train.py: Hydra composes, we check, and every mistake gets one sentence.

Hydra raises its own errors before a task function runs, and prints them over several lines with exit
code 1. Here they are caught, said in one sentence, and end with exit code 2; debug=trace shows the trace.
"""

import dataclasses
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

import hydra
from hydra._internal.utils import get_args_parser
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from highway.config.check import CONF, SWEEP_ONLY, check, kinds_of
from highway.config.compose import experiment as composed
from highway.config.compose import options
from highway.errors import Refused, SweepFailed, closest, listing
from highway.ledger.cell import Cell
from highway.sweep.launch import command_line
from highway.sweep.timed import is_timing, timing

EXIT_CODES = {"finished": 0, "failed": 1, "diverged": 3, "interrupted": 130}
log = logging.getLogger("highway")


def train() -> None:
    """The entry point of scripts/train.py."""
    log.addHandler(logging.StreamHandler())
    log.setLevel(logging.INFO)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then hands us its exceptions and prints nothing itself
    OmegaConf.register_new_resolver("cell_dir", _cell_directory, replace=True)
    with one_sentence(trace="debug=trace" in sys.argv):
        _refuse_unknown_flags()
        if is_timing(sys.argv[1:]):
            _time()
        if {"-m", "--multirun"} & set(sys.argv):
            sys.argv = [*map(_of_some_rows, sys.argv)]
        hydra.main(version_base="1.3", config_path=str(CONF), config_name="train")(_task)()


def _of_some_rows(word: str) -> str:
    """Before a sweep Hydra composes the default run, which may lack keys that the rows have: `++` lets it have them."""
    return f"++{word}" if re.match(r"(?!hydra\.)\w+\.[\w.]+=", word) else word


def _task(config: DictConfig) -> None:
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


def _refuse_unknown_flags() -> None:
    parser = get_args_parser()
    words = sys.argv[1:]
    known = [name for action in parser._actions for name in action.option_strings]
    for word in words:
        name = word.split("=", 1)[0]
        if name.startswith("-") and name not in known:
            near = closest(name, known)
            raise Refused(
                f"{name} is not a flag; settings are written without dashes, as in trainer.max_epochs=3.{near}"
            )


class one_sentence:  # noqa: N801 (reads as what it does: `with one_sentence():`)
    """Turns what a user can mend into one sentence on stderr and exit code 2."""

    def __init__(self, trace: bool = False) -> None:
        self.trace = trace

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: Any) -> None:
        if isinstance(error, KeyboardInterrupt):
            print("interrupted: the same command goes on from here.", file=sys.stderr)
            sys.exit(130)
        if isinstance(error, SweepFailed):
            print(f"error: {error}", file=sys.stderr)
            sys.exit(1)
        if error is None or not isinstance(error, Refused | HydraException | OmegaConfBaseException):
            return
        if self.trace:
            traceback.print_exception(error)
        print(f"error: {sentence(error)}", file=sys.stderr)
        sys.exit(2)


def sentence(error: BaseException) -> str:
    """The one sentence that an exception stands for: ours as it is, Hydra's and OmegaConf's in our words."""
    chain = [error]
    while cause := (chain[-1].__cause__ or chain[-1].__context__):
        chain.append(cause)
    for link in chain:
        if isinstance(link, Refused):
            return str(link)
    for link in reversed(chain):  # the innermost knows most
        for kind, say in _SAYINGS:
            if isinstance(link, kind) and (said := say(str(link))):
                return said
    return " ".join(str(chain[-1]).split())


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


def _syntax(message: str) -> str:
    """Hydra: LexerNoViableAltException: model..width=3 ..., or: Error parsing override 'gate' ..."""
    word = re.sub(r"^(\w+Exception: |Error parsing override )", "", message.splitlines()[0]).strip("'.")
    return f"{word} could not be read: settings are written key=value, as in gate=sdu_tanh."


def _several_values(message: str) -> str | None:
    """Hydra: Ambiguous value for argument 'gate=none,sdu_tanh' ..."""
    match = re.search(r"Ambiguous value for argument '(.+?)'\n", message)
    return f"{match[1]} names several values: add -m to run each of them." if match else None


_SAYINGS: list[tuple[type[BaseException], Callable[[str], str | None]]] = [
    (OverrideParseException, _syntax),
    (HydraException, _several_values),
    (HydraException, _unknown_option),
    (HydraException, _unknown_key),
]
