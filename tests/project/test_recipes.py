"""docs/RECIPES.md as a user follows it: in a new project its files are written and its commands run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from highway.ledger.files import read_json

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "docs" / "RECIPES.md"
FILE = re.compile(r"^```(?P<kind>python|yaml) (?P<path>\S+)\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MOST_WORDS = 1300


def typed(folder: Path, command: str) -> str:
    """Run a command as in a shell in a folder, and return what it printed."""
    places = {"PYTHONPATH": str(ROOT), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    outside = {key: value for key, value in os.environ.items() if not key.startswith("HIGHWAY_")}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env={**outside, **places}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Begin a project, and add every file of the recipes."""
    typed(tmp_path, "highway init myproject")
    folder = tmp_path / "myproject"
    for match in FILE.finditer(RECIPES.read_text()):
        path = folder / match["path"]
        path.parent.mkdir(exist_ok=True)
        with open(path, "a") as file:
            file.write(f"\n\n{match['content']}")
    return folder


@pytest.mark.slow
def test_the_recipes_work(project: Path) -> None:
    """The commands of the page run in its order, and their runs are of what the recipes added."""
    for command in "".join(COMMANDS.findall(RECIPES.read_text())).splitlines():
        typed(project, command)
    typed(project, "python -m pytest -q tests")
    results = [read_json(path) for path in (project / "outputs").glob("cells/*/seed*/result.json")]
    assert {result["status"] for result in results} == {"finished"}
    assert len(results) == 5 + 2 * 3, "a run for each recipe, and three seeds of two losses"
    told = typed(project, "highway table explain losses confident --budget smoke")
    assert "-log p - strength * H(p)" in told and "myproject/confident.py" in told
    report = typed(project, "highway report losses --budget smoke")
    assert re.search(r"surprises .*with penalty +\S+ ± \S+ +0\.\d+", report, re.DOTALL)
    assert "0 runs to train" in typed(project, "highway train -m table=losses budget=smoke seeds=1,2,3 plan=true")


def test_the_page_is_short() -> None:
    assert len(RECIPES.read_text().split()) <= MOST_WORDS
