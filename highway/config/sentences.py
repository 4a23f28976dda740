"""Errors that a user can mend in one sentence each, with what to type instead; also those of Hydra and OmegaConf."""

import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hydra.errors import HydraException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException

from highway.config.experiment import ROOT, SWEEP_ONLY, kinds_of, kinds_with
from highway.config.groups import groups, offered, options
from highway.errors import Refused, SweepFailed, Unwritable, as_typed, closest, listing, readable
from highway.keys.schema import keys_of


@contextmanager
def one_sentence() -> Iterator[None]:
    """Print an error that a user can mend as one line on stderr, and exit.

    With debug=trace, print the stack trace first. The exit code is 2; 4 where a file cannot be written; 1 after a sweep
    with runs that did not finish.
    """
    try:
        yield
    except SweepFailed as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except (Refused, OSError, HydraException, OmegaConfBaseException) as error:
        if "debug=trace" in sys.argv:
            traceback.print_exception(error)
        print(f"error: {sentence(error)}", file=sys.stderr)
        sys.exit(4 if isinstance(error, Unwritable) else 2)


def sentence(error: BaseException) -> str:
    """Return the line to print for an exception: our message as it is, a message of Hydra or OmegaConf reworded."""
    return readable(_said(error))


def _said(error: BaseException) -> str:
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:  # the chain may be circular
        chain.append(cause)
    for link in chain:
        if isinstance(link, Refused):
            return str(link)
    if isinstance(error, OSError) and not isinstance(error, HydraException):  # some of Hydra's errors are also OSErrors
        return f"{error.filename or 'a file'} cannot be used: {error.strerror or error}."
    for link in reversed(chain):  # the innermost error is the most specific
        if isinstance(link, OverrideParseException):
            return f"{as_typed(link.override)} could not be read. Write settings as key=value, as in gate=sdu_tanh."
        for kind, say in _SAYINGS:
            if isinstance(link, kind) and (message := say(str(link))):
                return message
    return str(chain[-1]).strip() or type(chain[-1]).__name__


def _unknown_option(message: str) -> str | None:
    """Reword Hydra's "Could not find 'gate/x' ... Available options in 'gate': a b c", or return None."""
    match = re.search(r"(?:Could not find|In '.*?': Could not (?:find|load)) '([\w/]+?)/([^/']+)'", message)
    if match is None:
        return None
    group, option = match[1], match[2]
    return f"{group}={option} does not exist.{closest(option, options(group))} {group} has {offered(group)}."


def _unknown_key(message: str) -> str | None:
    """Reword Hydra's "Could not override 'a.b'. ... Key 'b' is not in struct", or return None."""
    match = re.search(r"Could not (?:override|append to config\.|delete from config\.)? ?'([^']+)'", message)
    if match is None:
        return None
    key = match[1]
    known = [*groups(), "seed", "data_dir", "outputs_dir", *SWEEP_ONLY]
    if "." not in key:
        inside = [f"{section}.{key}" for section in ROOT if key in _keys_of(section)]
        hint = f" Did you mean {' or '.join(inside)}?" if inside else closest(key, known)
        return f"{key} is neither a key nor a group.{hint} Available: {listing(known)}."
    parent, name = key.rsplit(".", 1)
    keys = _keys_of(parent)
    if not keys:
        return f"{key} is not a key.{closest(parent, known)}"
    if others := kinds_with(parent, name):
        return (
            f"{key} is a key of {listing(others)} only. Choose an option of {parent} that has it, or leave it out; "
            "in a table, name the rows that have it, as in rows=ROW."
        )
    return f"{key} is not a key.{closest(name, keys)} {parent} has {listing(keys)}."


def _keys_of(parent: str) -> list[str]:
    """List the keys below a key; where they depend on the model or task, those of all models or tasks."""
    section, *rest = parent.split(".")
    kinds: list[Any] = list(kinds_of(section))
    for name in rest:
        kinds = [field.annotation for kind in kinds for key, field in keys_of(kind).items() if key == name]
    return list(dict.fromkeys(key for kind in kinds for key in keys_of(kind)))


def _several_values(message: str) -> str | None:
    """Reword Hydra's "Ambiguous value for argument 'gate=none,sdu_tanh' ...", or return None."""
    match = re.search(r"Ambiguous value for argument '(.+?)'\n", message)
    return f"{match[1]} gives several values: add -m to run each of them." if match else None


_SAYINGS: list[tuple[type[BaseException], Callable[[str], str | None]]] = [
    (HydraException, _several_values),
    (HydraException, _unknown_option),
    (HydraException, _unknown_key),
]
