"""Cards name code as "module:name", imported only when it is used: what may be asked for is known without torch."""

from importlib import import_module
from typing import Any


def loaded(code: str) -> Any:
    module, name = code.split(":")
    return getattr(import_module(module), name)


def where(code: str) -> str:
    """The file that it is in, for people."""
    return code.split(":")[0].replace(".", "/") + ".py"
