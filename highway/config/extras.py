"""Packages that one feature needs, and that `pip install highway` leaves out: the extras of pyproject.toml."""

import importlib.util

from highway.config.home import SHIPPED
from highway.errors import Refused


def need(package: str, extra: str, feature: str) -> None:
    """Refuse a feature whose package is not installed, with the command that installs it."""
    if importlib.util.find_spec(package) is None:
        install = f"pip install 'highway[{extra}]'" if SHIPPED.is_dir() else f"pip install -e '.[{extra}]'"
        raise Refused(f"{feature} needs {package}, which is not installed: {install}.")
