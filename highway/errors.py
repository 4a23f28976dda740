"""What can go wrong in a way that the user can mend: one sentence, no stack trace."""

from typing import Any

LONGEST = 60  # characters of a value that a sentence repeats


class Refused(Exception):
    """The command, the configuration or the data is wrong; the message says what would be right."""


class Unwritable(Refused):
    """The disk is full, or a folder may not be written to: what runs stops, and goes on once that is mended."""


class Held(Refused):
    """Another process is at it."""


class Damaged(Refused):
    """A file is not what was written: nothing may come of it."""


class SweepFailed(Exception):
    """Some cells did not finish. Hydra ignores what a sweeper returns, so this is raised."""


def closest(word: str, options: list[str]) -> str:
    """' Did you mean X?' when an option is near, else the empty string."""
    from difflib import get_close_matches

    near = get_close_matches(str(word), options, n=1)
    return f" Did you mean '{near[0]}'?" if near else ""


def listing(options: list[str]) -> str:
    return ", ".join(str(option) for option in options)


def as_typed(value: Any) -> str:
    """A value as a command line has it, of any length only the beginning."""
    text = " ".join(str(value).split())
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
