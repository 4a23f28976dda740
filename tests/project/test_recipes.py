"""docs/RECIPES.md as a user follows it: in a copy of the project, its files are written and its commands run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from highway.files.writing import read_json

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "docs" / "RECIPES.md"
FILE = re.compile(r"^```(?:python|yaml) (?P<path>\S+)\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VIEW = "tanh,gate=rezero,trainer.max_steps=20,trainer.validate_every=20"
EQUATION = """
import torch
from highway.config.gates import GateOptions
from highway.gates.gate import gate

x, fx = torch.randn(2, 3, 4, 5)
rezero = gate("residual", "rezero", 5, GateOptions("rezero"))
torch.nn.init.constant_(rezero.alpha, 0.5)
assert torch.equal(rezero(x, fx, x), x + 0.5 * fx)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the project, with every file of the recipes at its path."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("highway", "conf", "scripts", "hydra_plugins"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for match in FILE.finditer(RECIPES.read_text()):
        path = folder / match["path"]
        before = f"{path.read_text()}\n\n" if path.exists() else ""
        path.write_text(before + match["content"])
    return folder


def typed(project: Path, command: str) -> str:
    """Run a command as in a shell in the copy, and return what it printed."""
    places = {"PYTHONPATH": str(project), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    outside = {key: value for key, value in os.environ.items() if not key.startswith("HIGHWAY_")}
    done = subprocess.run(
        ["bash", "-c", command], cwd=project, env={**outside, **places}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def test_the_new_gate_is_its_equation_and_known_everywhere(project: Path) -> None:
    """The new gate equals its equation and takes three files beside its test: class, card and configuration."""
    written = [match["path"] for match in FILE.finditer(RECIPES.read_text())]
    assert written[:3] == ["highway/gates/rezero.py", "highway/config/gates.py", "conf/gate/rezero.yaml"]
    assert typed(project, f"python - <<'END'\n{EQUATION}\nEND") == ""
    told = typed(project, "COLUMNS=120 python scripts/table.py explain mine rezero --budget smoke")
    assert "x + alpha * f(x)" in told and ", of which 6 in gates;" in told and "highway/gates/rezero.py" in told
    refused = typed(project, "python scripts/train.py gate.residual=rezer 2>&1 || true")
    assert "Did you mean 'rezero'?" in refused


@pytest.mark.slow
def test_every_command_of_the_recipes(project: Path) -> None:
    for block in COMMANDS.findall(RECIPES.read_text()):
        for command in block.splitlines():
            printed = typed(project, command)
            if command.startswith("python scripts/report.py"):
                assert "ReZero beats no gate" in printed and "sample text" in printed
    results = [read_json(path) for path in (project / "outputs").glob("cells/*/seed1/result.json")]
    rezero = {result["cell"].split("-")[0] for result in results if 0 < result["parameters"]["gate"] < 99}
    assert rezero == {"transformer", "transformer_xl", "encoder_decoder"}
    assert (project / "outputs" / "highway_t3" / "smoke" / VIEW / "seed1" / "result.json").exists()
