"""Import every module with the installed torch; make test-lowest runs this with the lowest that is allowed."""

import importlib
import pkgutil
import tomllib
from pathlib import Path

import torch
from packaging.requirements import Requirement
from packaging.version import Version

import highway
import hydra_plugins


def test_every_module_is_imported() -> None:
    for package in (highway, hydra_plugins):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def test_this_torch_is_allowed() -> None:
    asked = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["dependencies"]
    (torch_,) = (requirement for requirement in map(Requirement, asked) if requirement.name == "torch")
    assert Version(torch.__version__).base_version in torch_.specifier
