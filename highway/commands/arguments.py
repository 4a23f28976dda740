"""The arguments of every command but `train`, and the context that turns errors into one sentence."""

import argparse
import math
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

from highway.commands.helps import EXAMPLES, ending
from highway.errors import Refused, SweepFailed, Unwritable, readable


class Arguments(argparse.ArgumentParser):
    """The argument parser of the other scripts, which reports a mistake in one line."""

    def __init__(self, description: str | None = None, **options: Any) -> None:
        layout = argparse.RawDescriptionHelpFormatter
        super().__init__(description=description, formatter_class=layout, allow_abbrev=False, **options)
        _, _, command = self.prog.partition(" ")
        if command in EXAMPLES:  # not the parser of an action, as `highway data prepare`
            self.epilog = ending(command)

    def error(self, message: str) -> Any:
        print(f"error: {readable(message)}.", file=sys.stderr)
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
    """A context that turns errors which a user can fix into one line on stderr.

    The exit code is 2, or 4 where a file cannot be written.
    """

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
        if error is None or not (isinstance(error, Refused | OSError) or _of_hydra(error)):
            return
        if "debug=trace" in sys.argv:
            traceback.print_exception(error)
        from highway.config.sentences import sentence  # Hydra takes a fifth of a second to import

        print(f"error: {sentence(error)}", file=sys.stderr)
        sys.exit(4 if isinstance(error, Unwritable) else 2)


def _of_hydra(error: BaseException) -> bool:
    if "hydra" not in sys.modules:
        return False
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    return isinstance(error, HydraException | OmegaConfBaseException)
