"""A project of your own, written by `highway init` and found in its folder; the wheel, installed in an empty folder."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from highway.commands.init import begin
from highway.errors import Refused
from highway.files.writing import read_json

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "example"
PYTHON = (sys.executable, "-m", "highway")
FEW_STEPS = ("trainer.max_steps=4", "trainer.validate_every=2")


def run(folder: Path, *command: str, **environment: str) -> str:
    """Run a command in a folder, as a user who has set nothing; return what it printed."""
    outside = {key: value for key, value in os.environ.items() if not key.startswith("HIGHWAY_")}
    done = subprocess.run(command, cwd=folder, env={**outside, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return begin(tmp_path / "my_gates")


def test_init_gives_every_file_its_name(project: Path) -> None:
    files = [path for path in project.rglob("*") if path.is_file()]
    assert (project / "my_gates" / "layer_scale.py").exists()
    assert not [path for path in files if "myproject" in f"{path} {path.read_text()}"]
    assert sum(len(path.read_text().splitlines()) for path in files) < 120 + 20, "code and configuration; the README"


def test_the_page_shows_the_whole_example() -> None:
    page = (ROOT / "docs" / "OWN.md").read_text()
    shown = dict(re.findall(r"^`([\w/.]+)`\n\n```\w+\n(.*?)```$", page, flags=re.M | re.S))
    paths = [path for path in EXAMPLE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert shown == {str(path.relative_to(EXAMPLE)): path.read_text() for path in paths if path.suffix != ".md"}
    lines = sum(len(text.splitlines()) for text in shown.values())
    assert lines < 120 and f"the {lines} lines below" in page


NEEDS_SLURM = pytest.mark.skipif(os.environ.get("HIGHWAY_SLURM") != "yes", reason="needs Slurm: make test-slurm")
LAUNCHERS = [
    pytest.param(("hydra/launcher=local",), marks=pytest.mark.slow, id="local"),
    pytest.param(
        ("hydra/launcher=slurm", "hydra.launcher.cpus=1", "trainer.accelerator=cpu"),
        marks=[pytest.mark.slurm, NEEDS_SLURM],
        id="slurm",
    ),
    pytest.param(("hydra/launcher=ray", "hydra.launcher.cores=2"), marks=pytest.mark.ray, id="ray"),
]


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_example_through_a_launcher(project: Path, launcher: tuple[str, ...]) -> None:
    assert_two_rows(project, PYTHON, launcher, str(ROOT))


def assert_two_rows(project: Path, python: tuple[str, ...], launcher: tuple[str, ...], source: str = "") -> None:
    """Check that a launcher trains a row with the project's gate and one with ours, and that its records say so."""
    few = ("budget=smoke", "seeds=1", "rows=tanh,layer_scale", *FEW_STEPS)
    shown = run(project, *python, "train", "-m", "table=first", *few, *launcher, PYTHONPATH=source)
    records = [read_json(path) for path in (project / "outputs" / "cells").glob("*/seed1/result.json")]
    assert [record["status"] for record in records] == ["finished"] * 2, shown
    assert "LayerScale" in run(project, *python, "table", "render", "first", "--budget", "smoke", PYTHONPATH=source)


@pytest.mark.parametrize("name", ["highway", "My-Gates", "1st", "a.b"])
def test_names_that_no_package_can_have_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="cannot name a package"):
        begin(tmp_path / name)


def test_nothing_is_overwritten(project: Path) -> None:
    with pytest.raises(Refused, match="exists already"):
        begin(project)


def test_a_project_is_found_from_a_folder_inside_it(project: Path) -> None:
    shown = run(project / "conf", *PYTHON, "table", "explain", "first", "layer_scale", "--budget", "smoke")
    assert "x + a * f(x)" in shown and "Code: my_gates/layer_scale.py" in shown
    shown = run(ROOT, *PYTHON, "table", "explain", "first", "none", "--budget", "smoke", HIGHWAY_PROJECT=str(project))
    assert "A gate of this project beside two others." in shown


def test_a_broken_project_is_one_sentence(project: Path, tmp_path: Path) -> None:
    (project / "my_gates" / "__init__.py").write_text("1 / 0")
    for folder, environment, sentence in (
        (project, {}, "the package my_gates of"),
        (ROOT, {"HIGHWAY_PROJECT": str(tmp_path)}, "is no project: its pyproject.toml has no [tool.highway]"),
    ):
        done = subprocess.run(
            [*PYTHON, "table", "status", "first"], cwd=folder, env={**os.environ, **environment}, capture_output=True
        )
        assert done.returncode == 2 and sentence in done.stderr.decode(), done.stderr.decode()
        assert b"Traceback" not in done.stderr


@pytest.mark.slow
def test_a_project_is_treated_as_our_own_tables(project: Path) -> None:
    """Its table is trained by processes; its records say whose code it was; its report, site and tests work."""
    run(project, "git", "init", "-q")
    run(project, *PYTHON, "train", "-m", "table=first", "budget=smoke", "seeds=1", *FEW_STEPS, "hydra.launcher.slots=2")
    records = [read_json(path) for path in project.glob("outputs/cells/*/seed1/result.json")]
    assert len(records) == 3
    assert {record["environment"]["project"]["package"] for record in records} == {"my_gates"}
    assert {record["environment"]["project"]["version"] for record in records} == {"0.1"}
    gated = [record for record in records if record["parameters"]["gate"] == 2 * 3 * 32]
    assert len(gated) == 1
    assert "finished" in run(project, *PYTHON, "table", "status", "first", "--with", *FEW_STEPS, COLUMNS="160")
    run(project, *PYTHON, "report")
    assert "first" in (project / "outputs" / "report" / "index.html").read_text()
    assert "3 passed" in run(project, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The command of a wheel of a clean checkout, in an environment that has our dependencies but not this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    clean = folder / "clean"
    run(folder, "git", "clone", "-q", "--no-hardlinks", str(ROOT), str(clean))
    pip = (sys.executable, "-m", "pip")
    run(clean, *pip, "wheel", "-q", "--no-deps", "-w", str(folder / "wheels"), ".")
    (wheel,) = (folder / "wheels").glob("highway-*.whl")
    run(folder, sys.executable, "-m", "venv", "--without-pip", str(folder / "empty"))
    (packages,) = (folder / "empty").glob("lib/python*/site-packages")
    run(folder, *pip, "install", "-q", "--no-deps", "--target", str(packages), str(wheel))
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    shutil.rmtree(clean)
    python = str(folder / "empty" / "bin" / "python")
    shown = run(folder, python, "-c", "import highway; print(highway.__file__)", PYTHONPATH="")
    assert str(packages) in shown
    return python, "-m", "highway"


@pytest.mark.slow
def test_the_wheel_trains_and_reports_in_an_empty_folder(installed: tuple[str, ...], tmp_path: Path) -> None:
    version = run(tmp_path, *installed, "--version", PYTHONPATH="")
    assert "unknown" not in version and "torch" in version
    small = ("model.width=64", "model.feed_forward=128", "model.layers=1")
    one = ("model=transformer", "gate=sdu_tanh", "dataset=ptb_char", "seed=1", "budget=smoke", *small)
    run(tmp_path, *installed, "train", *one, *FEW_STEPS, PYTHONPATH="")
    run(tmp_path, *installed, "train", "-m", "table=highway_t1", "budget=smoke", "seeds=1", *FEW_STEPS, PYTHONPATH="")
    run(tmp_path, *installed, "report", PYTHONPATH="")
    page = (tmp_path / "outputs" / "report" / "highway_t5" / "index.html").read_text()
    assert 'id="findings"' in page and 'id="log"' in page


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_wheel_trains_its_example_through_a_launcher(
    installed: tuple[str, ...], tmp_path: Path, launcher: tuple[str, ...]
) -> None:
    run(tmp_path, *installed, "init", "mine", PYTHONPATH="")
    assert_two_rows(tmp_path / "mine", installed, launcher)
