"""The version, the files of the package, and the checks that run elsewhere: each agrees with its one source."""

import re
import tomllib
from pathlib import Path

import yaml
from packaging.specifiers import SpecifierSet
from packaging.version import Version

import highway
from tests.lowest import lowest

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_stands_in_one_place() -> None:
    assert SETTINGS["project"]["dynamic"] == ["version"]
    assert SETTINGS["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "highway.__version__"}
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest and Version(newest[1]) == Version(Version(highway.__version__).base_version)


def test_the_package_has_its_data() -> None:
    patterns = SETTINGS["tool"]["setuptools"]["package-data"]["highway"]
    assert "py.typed" in patterns
    assert all(list((ROOT / "highway").glob(pattern)) for pattern in patterns)


def test_every_dependency_has_a_lowest_version() -> None:
    """`make test-lowest` installs these."""
    requirements = lowest((ROOT / "pyproject.toml").read_text())
    assert "torch==2.11" in requirements and "hydra-core==1.3.8" in requirements
    assert all("==" in requirement for requirement in requirements)


def test_hooks_before_a_commit_are_those_of_make_lint() -> None:
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = re.findall(r"\$\(RUN\) (-m [^&\n]+)", lint[1] if lint else "")
    hooks = [hook["entry"].removeprefix(".venv/bin/python ") for hook in local["hooks"]]
    assert local["repo"] == "local"
    assert [command.replace(" .", "").strip() for command in commands] == hooks


def test_the_workflow_runs_on_pythons_that_are_allowed() -> None:
    job = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]["test"]
    pythons = job["strategy"]["matrix"]["python"]
    assert pythons == ["3.11", "3.12"]
    assert all(SpecifierSet(SETTINGS["project"]["requires-python"]).contains(python) for python in pythons)
    assert job["steps"][-1]["run"].startswith("make lint test")


def test_the_citation_is_complete() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert len(citation["references"]) == len(list((ROOT / "docs" / "papers").glob("*.md")))
