"""Do something when this process touches its files for the n-th time, so that each of its phases is hit."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

TOUCHED = ("open", "os.rename", "os.remove", "os.mkdir", "os.truncate")


class AtEvent:
    """Calls a function when this process opens, renames or removes a file of `outputs` for the n-th time."""

    def __init__(self, outputs: Path, number: int, does: Callable[[], None]) -> None:
        self.outputs, self.number, self.does, self.count = str(outputs), number, does, 0
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in TOUCHED or not isinstance(arguments[0], str | os.PathLike):
            return
        if os.fspath(arguments[0]).startswith(self.outputs):
            self.count += 1
            if self.count == self.number:
                self.does()
