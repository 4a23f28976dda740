"""docs/RECIPES.md as a user follows it: in a copy of the project, its files are written and its commands run."""

import os
import re
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

from highway.files.writing import read_json

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "docs" / "RECIPES.md"
FILE = re.compile(r"^```(?P<kind>python|yaml|diff) (?P<path>\S+)\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTIONS = {
    text.partition("\n")[0].removeprefix("Add a "): text for text in RECIPES.read_text().split("\n## ")[1:]
}  # the recipes by what they add: gate, backbone, ...


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Copy the project, with every file of the recipes at its path."""
    folder = tmp_path / "copy"
    for name in ("highway", "conf", "scripts", "hydra_plugins", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for match in FILE.finditer(RECIPES.read_text()):
        path = folder / match["path"]
        path.write_text(followed(path.read_text() if path.exists() else "", match["kind"], match["content"]))
    return folder


def followed(before: str, kind: str, content: str) -> str:
    """Return the text of a file after a block of the page: a diff changes lines, other blocks go to the end."""
    if kind != "diff":
        return f"{before}\n\n{content}" if before else content
    lines = content.splitlines(keepends=True)
    old, new = ("".join(line[1:] for line in lines if line[0] != sign) for sign in "+-")
    assert before.count(old) == 1, f"the lines stand {before.count(old)} times in the file:\n{old}"
    return before.replace(old, new)


def typed(project: Path, command: str) -> str:
    """Run a command as in a shell in the copy, and return what it printed."""
    places = {"PYTHONPATH": str(project), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    outside = {key: value for key, value in os.environ.items() if not key.startswith("HIGHWAY_")}
    done = subprocess.run(
        ["bash", "-c", command], cwd=project, env={**outside, **places}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.slow
def test_the_recipes_work(project: Path) -> None:
    """Every recipe has at most five files; their tests, and all commands of the page, pass in the order of the page."""
    paths = {name: {match["path"] for match in FILE.finditer(text)} for name, text in SECTIONS.items()}
    assert max(map(len, paths.values())) <= 5
    tests = [path for path in chain(*paths.values()) if Path(path).name.startswith("test_")]
    assert len(tests) == len(SECTIONS) - 2, "all recipes but a table and the use from Python"
    typed(project, f"python -m pytest -q {' '.join(tests)} tests/config/test_neutral.py")
    printed = {}
    for command in "".join(COMMANDS.findall(RECIPES.read_text())).splitlines():
        if "pytest" not in command:
            printed[command] = typed(project, command)
    told = printed["highway table explain mine rezero --budget smoke"]
    assert "x + alpha * f(x)" in told and "highway/gates/rezero.py" in told
    assert "It works: 3 rows trained" in printed["highway report mine --budget smoke"]
    calibrated = printed["highway report calibrated --budget smoke"]
    assert re.search(r"test accuracy +test calibration error .*GRU +0\.\d+ +0\.\d+", calibrated, re.DOTALL)
    results = [read_json(path) for path in (project / "outputs").glob("cells/*/seed1/result.json")]
    rezero = {result["cell"].split("-")[0] for result in results if 0 < result["parameters"]["gate"] < 99}
    assert rezero >= {"transformer", "transformer_xl", "encoder_decoder"}
