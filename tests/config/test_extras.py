"""Extras: a feature whose package is missing is refused with the command that installs it."""

import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import benchmark
import pytest

from highway.cli import main
from highway.config import extras
from highway.errors import Refused
from highway.python.tunes import write_midi
from highway.sweep.ray import RayLauncher
from highway.sweep.slurm import SlurmLauncher
from tests.support.commands import ROOT


def typed(*arguments: str) -> Callable[[Path], object]:
    def run(folder: Path) -> None:
        sys.argv = ["highway", *arguments]
        main()

    return run


def benchmarked(folder: Path) -> None:
    sys.argv = ["benchmark.py", "highway_t3"]
    benchmark.main()


FEATURES: dict[tuple[str, str], Callable[[Path], object]] = {
    ("mido", "music"): lambda folder: write_midi([], folder / "tune.mid", 0.25),
    ("wandb_workspaces", "dashboards"): typed("dashboard", "highway_t3", "--dry-run"),
    ("submitit", "slurm"): lambda folder: SlurmLauncher().prepare([], 0),
    ("ray", "ray"): lambda folder: RayLauncher(),
    ("x_transformers", "bench"): benchmarked,
    ("pytorch_tcn", "bench"): benchmarked,
}


@pytest.mark.parametrize(("package", "extra"), FEATURES)
def test_a_missing_extra_is_one_sentence(
    package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(sys, "argv", [])
    with pytest.raises((Refused, SystemExit)) as refused:
        FEATURES[package, extra](tmp_path)
    message = str(refused.value) if isinstance(refused.value, Refused) else capsys.readouterr().err
    assert message.strip().endswith(f"needs {package}, which is not installed: pip install -e '.[{extra}]'.")


def test_an_installed_package_names_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "SHIPPED", tmp_path)
    with pytest.raises(Refused, match=r"pip install 'highway\[music\]'\.$"):
        extras.need("no_such_package", "music", "tunes")


def test_every_extra_that_a_message_names_installs_its_package() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    files = [*(ROOT / "highway").rglob("*.py"), *(ROOT / "scripts").glob("*.py")]
    code = "".join(path.read_text() for path in files)
    named = set(re.findall(r'\bneed\("(\w+)", "(\w+)"', code))
    assert named == set(FEATURES)
    for package, extra in named:
        assert any(package.replace("_", "-") in requirement for requirement in declared[extra])
