"""A project of your own: `highway init` writes it, its README holds; the wheel, installed in an empty folder."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from highway.config.project import begin
from highway.errors import Refused
from highway.ledger.files import read_json

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "example"
PYTHON = (sys.executable, "-m", "highway")
SITE = """
from pathlib import Path
from highway.config.project import load
from highway.report.site import build_site
from highway.tables.reading import load_table
load()
build_site(Path("outputs"), [load_table("first")])
"""


def run(folder: Path, *command: str, code: int = 0, **environment: str) -> str:
    """Run a command in a folder, as a user who has set nothing; return what it printed."""
    outside = {key: value for key, value in os.environ.items() if not key.startswith("HIGHWAY_")}
    done = subprocess.run(command, cwd=folder, env={**outside, **environment}, capture_output=True, text=True)
    assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    begin(tmp_path / "my_gates")
    return tmp_path / "my_gates"


def test_init_gives_every_file_its_name_and_overwrites_nothing(project: Path) -> None:
    files = [path for path in project.rglob("*") if path.is_file()]
    assert (project / "my_gates" / "layer_scale.py").exists()
    assert not [path for path in files if "myproject" in f"{path} {path.read_text()}"]
    with pytest.raises(Refused, match="exists already"):
        begin(project)


@pytest.mark.parametrize("name", ["highway", "My-Gates", "1st", "a.b"])
def test_names_that_no_package_can_have_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="cannot name a package"):
        begin(tmp_path / name)


@pytest.mark.parametrize("name", ["class", "statistics", "yaml"])
def test_names_that_would_hide_a_module_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match=f"'{name}' is a word or a module of Python already"):
        begin(tmp_path / name)


def test_the_page_names_every_file_of_the_example() -> None:
    page = (ROOT / "docs" / "OWN.md").read_text()
    named = re.findall(r"^\| \[`(\S+)`\]\(\.\./example/(\S+)\) \|", page, flags=re.M)
    paths = [path for path in EXAMPLE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    files = {str(path.relative_to(EXAMPLE)) for path in paths if path.suffix != ".md"}
    assert {shown for shown, _ in named} == {link for _, link in named} == files
    assert len(page.split()) <= 350


def test_a_project_is_found_from_a_folder_inside_it_and_a_broken_one_is_one_sentence(project: Path) -> None:
    shown = run(project / "conf", *PYTHON, "table", "explain", "first", "layer_scale", "--budget", "smoke")
    assert "x + a * f(x)" in shown and "my_gates/layer_scale.py" in shown
    (project / "my_gates" / "__init__.py").write_text("1 / 0")
    for setting, sentence in (
        (project, "the package my_gates of"),
        (project.parent, "is no project: there is no pyproject.toml with a package"),
    ):
        said = run(ROOT, *PYTHON, "table", "status", "first", code=2, HIGHWAY_PROJECT=str(setting))
        assert sentence in said and said.count("\n") == 1


def test_records_of_a_project_say_what_they_need(project: Path, tmp_path: Path) -> None:
    """They are published where a person says, shown in the project before any paper, and missed elsewhere."""
    overrides = ("rows=layer_scale", "trainer.max_steps=2", "trainer.validate_every=2")
    run(project, *PYTHON, "train", "-m", "table=first", "budget=smoke", *overrides)
    report = run(project, *PYTHON, "report")
    assert "Nothing is decided" in report and "highway_t" not in report
    said = run(project, *PYTHON, "publish", "first", code=2)
    assert "only highway's own checkout has a folder of published runs" in said
    said = run(ROOT, *PYTHON, "report", "first", code=2, HIGHWAY_OUTPUTS=str(project / "outputs"))
    assert "there is no table 'first' here, but" in said and "HIGHWAY_PROJECT" in said
    (directory,) = (project / "outputs" / "cells").glob("*/seed1")
    run(project, *PYTHON, "card", str(directory), "--into", str(tmp_path / "card"))
    card = (tmp_path / "card" / "README.md").read_text()
    assert "the project my_gates" in card and "x + a * f(x)" in card and "the paper" not in card


def test_a_file_with_the_name_of_an_option_of_ours_is_refused(project: Path) -> None:
    """Ours would be read in its place."""
    (project / "conf" / "optimizer").mkdir()
    (project / "conf" / "optimizer" / "adam.yaml").write_text("# Mine.\nname: adam\nlr: 0.5\n")
    said = run(project, *PYTHON, "train", "optimizer=adam", "--cfg", "job", code=2)
    assert "conf/optimizer/adam.yaml has the name of an option of highway" in said and said.count("\n") == 1


def test_data_that_a_project_generates_needs_no_files(project: Path) -> None:
    listed = run(project, *PYTHON, "data", "list", COLUMNS="160")
    assert re.search(r"^ *counting .* generated *$", listed, flags=re.M)
    assert re.search(r"^ *mnist .* missing mnist/train-images", listed, flags=re.M)
    prepared = run(project, *PYTHON, "data", "prepare", "counting")
    assert "counting (generated): vocabulary 11" in prepared and "checksums" not in prepared
    assert re.search(r"train +35,000 symbols", prepared)
    assert run(project, *PYTHON, "data", "verify", "counting") == "counting: generated, so there is nothing to check\n"


@pytest.fixture
def installed(tmp_path: Path) -> tuple[str, ...]:
    """The command of a wheel of a clean checkout, in an environment that has our dependencies but not this checkout."""
    folder = tmp_path / "wheel"
    clean = folder / "clean"
    folder.mkdir()
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
def test_the_wheel_trains_and_reports_a_project_of_ones_own(installed: tuple[str, ...], tmp_path: Path) -> None:
    """The project's table is trained by processes; records say whose code it was; its report, site and tests work."""
    version = run(tmp_path, *installed, "--version", PYTHONPATH="")
    assert "unknown" not in version and "torch" in version
    run(tmp_path, *installed, "init", "mine", PYTHONPATH="")
    project = tmp_path / "mine"
    run(project, "git", "init", "-q")
    few = ("trainer.max_steps=4", "trainer.validate_every=2")
    added = [word for override in few for word in ("--with", override)]
    table = ("table=first", "budget=smoke", "seeds=1", "rows=none,layer_scale")
    run(project, *installed, "train", "-m", *table, *few, "hydra.launcher.slots=2", PYTHONPATH="")
    records = [read_json(path) for path in project.glob("outputs/cells/*/seed1/result.json")]
    assert [record["status"] for record in records] == ["finished"] * 2
    assert {record["environment"]["project"]["package"] for record in records} == {"mine"}
    assert [record["parameters"]["gate"] for record in records].count(2 * 3 * 32) == 1
    shown = run(project, *installed, "table", "status", "first", *added, COLUMNS="160", PYTHONPATH="")
    assert "finished: seed 1" in shown
    assert list(project.glob("outputs/report/first,*/smoke/table.md")), "the report that ends the sweep"
    run(project, installed[0], "-c", SITE, PYTHONPATH="")  # with the templates of the wheel
    assert "first" in (project / "outputs" / "report" / "index.html").read_text()
    assert "passed" in run(project, installed[0], "-m", "pytest", "-q", "-p", "no:cacheprovider", PYTHONPATH="")


@pytest.mark.slow
def test_the_readme_of_a_project_does_what_it_says(project: Path) -> None:
    """Its commands run as typed, except for the installation of pytest; its models learn to count."""
    blocks = re.findall(r"```bash\n(.*?)```", (project / "README.md").read_text(), flags=re.S)
    commands = [line for line in "".join(blocks).splitlines() if not line.startswith("pip ")]
    programs = {"highway": PYTHON, "python": (sys.executable,)}
    printed = {}
    for command in commands:
        program, *arguments = shlex.split(command)
        printed[command] = run(project, *programs[program], *arguments, COLUMNS="160")
    assert "passed" in printed["python -m pytest"]
    records = [read_json(path) for path in project.glob("outputs/cells/*/seed*/result.json")]
    perplexities = [record["metrics"]["test_ppl"]["best"] for record in records]
    assert len(perplexities) == 6 and max(perplexities) < 2
    (continued,) = (text for command, text in printed.items() if "generate" in command)
    assert "4 2 3 9 ; 4 2 4 0 ; 4 2 4 1 ; 4 2 4 2 ;" in continued
