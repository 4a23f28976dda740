"""A project of your own beside this package: a folder with its configurations and the package of its code.

A folder is a project if its pyproject.toml says so:

    [tool.highway]
    package = "myproject"      # importing it adds its cards; conf/ beside it adds its configurations

$HIGHWAY_PROJECT names the folder; without it, the nearest such folder counts, from the current one upwards.
"""

import keyword
import os
import re
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

from highway.config.home import CONF, HOME
from highway.errors import Refused, Unwritable

TEMPLATE, NAME = HOME / "example", "myproject"
SETTING = "HIGHWAY_PROJECT"


@dataclass(frozen=True)
class Project:
    folder: Path
    package: str
    version: str | None

    @property
    def conf(self) -> Path:
        return self.folder / "conf"


@cache
def project() -> Project | None:
    """Return the project, or None outside of one. Processes that this one starts have the same project."""
    given = os.environ.get(SETTING)
    here = Path(given) if given else Path.cwd()
    for folder in (here,) if given else (here, *here.parents):
        if nearest := _read(folder.resolve()):
            os.environ[SETTING] = str(nearest.folder)
            return nearest
    if given:
        lacks = "pyproject.toml with a package under [tool.highway]" if here.is_dir() else "folder of this name"
        raise Refused(f"{SETTING}={given} is no project: there is no {lacks}.")
    return None


def needs_project(what: str, package: str, reason: str) -> Refused:
    """Return the refusal of a run or grid of another project, which cannot be read without its package."""
    first = reason.split(". ")[0].rstrip(".")  # the rest lists what there is instead
    return Refused(
        f"{what} needs the project {package}, which is not loaded here ({first}). Type the command in the folder of "
        f"{package}, or set {SETTING} to that folder."
    )


def load() -> None:
    """Import the project's package, which adds its cards to ours."""
    current = project()
    if current is None or current.package in sys.modules:
        return
    if str(current.folder) not in sys.path:
        sys.path.insert(0, str(current.folder))
    for path in current.conf.rglob("*.yaml"):
        if (CONF / path.relative_to(current.conf)).exists():
            raise Refused(f"{path} has the name of an option of highway, which would be read instead: rename it.")
    try:
        import_module(current.package)
    except Refused as refused:
        raise Refused(f"the package {current.package}: {refused}") from refused
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        raise Refused(f"the package {current.package} of {current.folder} cannot be imported ({text}).") from error


def confs() -> list[Path]:
    """Return the folders of configurations: ours, then the project's."""
    current = project()
    return [CONF, *([current.conf] if current else [])]


def conf_file(name: str) -> Path:
    """Return the path of a configuration file, in the first folder that has it; else where ours would be."""
    return next((folder / name for folder in confs() if (folder / name).exists()), CONF / name)


def begin(folder: Path) -> None:
    """Write a new project from the template, under the name of its folder."""
    name = folder.name
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in ("highway", "tests", "conf"):
        raise Refused(f"'{name}' cannot name a package: use small letters, digits and _, as in highway init my_gates.")
    if folder.exists():
        raise Refused(f"{folder} exists already. Choose another name.")
    if keyword.iskeyword(name) or name in sys.stdlib_module_names or name in packages_distributions():
        raise Refused(f"'{name}' is a word or a module of Python already. Choose another name.")
    try:
        for path in sorted(TEMPLATE.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
                target = folder / Path(*(name if part == NAME else part for part in path.relative_to(TEMPLATE).parts))
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(path.read_text().replace(NAME, name))
    except OSError as error:
        raise Unwritable(f"{folder} could not be written: {error.strerror}.") from error


def _read(folder: Path) -> Project | None:
    path = folder / "pyproject.toml"
    if not path.is_file():
        return None
    try:
        content = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refused(f"{path} is not valid TOML: {error}.") from error
    package = content.get("tool", {}).get("highway", {}).get("package")
    return Project(folder, package, content.get("project", {}).get("version")) if package else None
