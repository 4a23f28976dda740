"""Errors that the user can mend. Each is shown as one sentence, without a stack trace."""

import re
from typing import Any

LONGEST = 60  # characters of a value that a message repeats


class Refused(Exception):
    """The command, the configuration or the data is wrong. The message says how to mend it."""


class Unwritable(Refused):
    """A file cannot be written: the disk is full, or the folder is read-only. The run stops and can be resumed."""


class Held(Refused):
    """Another process holds the lease."""


class Corrupt(Refused):
    """A file is corrupt: its content does not match its checksum, so it must not be used."""


class SweepFailed(Exception):
    """Some runs of a sweep did not finish. Raised, because Hydra ignores the return value of a sweeper."""


def closest(word: str, options: list[str]) -> str:
    """Return " Did you mean 'X'?" for the option most similar to the word, or the empty string."""
    from difflib import get_close_matches

    near = get_close_matches(str(word), options)
    near.sort(key=lambda option: sorted(option) != sorted(str(word)))  # the same letters in another order come first
    return f" Did you mean '{near[0]}'?" if near else ""


def listing(options: list[str]) -> str:
    """Return the options in one line, for a message."""
    return ", ".join(str(option) for option in options)


def counted(count: int, noun: str) -> str:
    """Return `1 run`, `2 runs`, and so on."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def as_typed(value: Any) -> str:
    """Return a value as written on a command line, at most its first LONGEST characters."""
    text = " ".join(str(value).split())
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def readable(message: str) -> str:
    """Return a message in one line, with words of 300 characters or more shortened."""
    return re.sub(r"\S{300,}", lambda word: as_typed(word[0]), " ".join(message.split()))
