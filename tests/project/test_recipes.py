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
AFTER_TABLE = "Use it from Python"  # reads what the recipe of a table has trained
VIEW = "tanh,gate=rezero,trainer.max_steps=20,trainer.validate_every=20"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the project, with every file of the recipes at its path."""
    folder = tmp_path_factory.mktemp("copy")
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


def test_the_new_gate_is_known_everywhere(project: Path) -> None:
    told = typed(project, "COLUMNS=120 highway table explain mine rezero --budget smoke")
    assert "x + alpha * f(x)" in told and ", of which 6 in gates;" in told and "highway/gates/rezero.py" in told
    refused = typed(project, "highway train gate.residual=rezer 2>&1 || true")
    assert "Did you mean 'rezero'?" in refused


def test_each_recipe_has_few_files_and_its_own_tests_pass(project: Path) -> None:
    """A recipe names at most five files, with its test; the frozen defaults of the project hold beside it."""
    paths = {name: {match["path"] for match in FILE.finditer(text)} for name, text in SECTIONS.items()}
    assert max(map(len, paths.values())) <= 5
    tests = [path for path in chain(*paths.values()) if Path(path).name.startswith("test_")]
    assert len(tests) == len(SECTIONS) - 2, "all recipes but a table and the use from Python"
    typed(project, f"python -m pytest -q {' '.join(tests)} tests/config/test_neutral.py")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SECTIONS if name != AFTER_TABLE])
def test_every_command_of_a_recipe(project: Path, name: str) -> None:
    text = SECTIONS[name] + (SECTIONS[AFTER_TABLE] if name == "table" else "")
    for command in "".join(COMMANDS.findall(text)).splitlines():
        printed = typed(project, command)
        if command.startswith("highway report mine"):
            assert "sample text" in printed
            assert "they give no verdict" in printed and "ReZero beats no gate" in printed
        if command.startswith("highway report calibrated"):
            assert re.search(r"test accuracy +test calibration error .*GRU +0\.\d+ +0\.\d+", printed, re.DOTALL)
    if name == "gate":
        results = [read_json(path) for path in (project / "outputs").glob("cells/*/seed1/result.json")]
        rezero = {result["cell"].split("-")[0] for result in results if 0 < result["parameters"]["gate"] < 99}
        assert rezero >= {"transformer", "transformer_xl", "encoder_decoder"}
        assert (project / "outputs" / "highway_t3" / "smoke" / VIEW / "seed1" / "result.json").exists()
