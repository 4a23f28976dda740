"""Code that a card names as "module:name". It is imported only when used, so that cards can be read without torch."""

from importlib import import_module
from typing import Any


def loaded(code: str) -> Any:
    """Import the module and return the named class or function."""
    module, name = code.split(":")
    return getattr(import_module(module), name)


def where(code: str) -> str:
    """Return the path of the file that contains the code."""
    return code.split(":")[0].replace(".", "/") + ".py"
