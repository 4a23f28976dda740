"""The rooms of docs/ARCHITECTURE.md: which there are, and that imports go up in their list alone, without a circle."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = ROOT / "highway"
ENTRANCES = {"__init__", "__main__"}  # `import highway` and `python -m highway`
ROOMS = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "ARCHITECTURE.md").read_text(), re.MULTILINE)


@cache
def modules() -> dict[str, ast.Module]:
    return {
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."): ast.parse(path.read_text())
        for path in CODE.rglob("*.py")
    }


def imports(tree: ast.Module, known: set[str]) -> set[str]:
    """Return our modules that a tree imports, also inside of functions."""
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {name.name for name in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{name.name}" for name in node.names}
            imported |= (inside & known) or {node.module}
    return {name for name in imported if name.split(".")[0] == "highway"}


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def test_every_room_is_on_the_page() -> None:
    assert {room(name) for name in modules()} - ENTRANCES == {*ROOMS} and len(ROOMS) == len({*ROOMS})


def test_a_room_imports_only_rooms_above_it() -> None:
    known = set(modules())
    for name, tree in modules().items():
        if (here := room(name)) not in ENTRANCES:
            below = {other for other in imports(tree, known) if room(other) not in ROOMS[: ROOMS.index(here) + 1]}
            assert not below, f"{name} imports {below}"


def test_no_module_is_reached_from_itself() -> None:
    """No module imports itself through others, not even within a room."""
    known = set(modules())
    graph = {name: imports(tree, known) & known for name, tree in modules().items()}
    for start in graph:
        actual: set[str] = set()
        waiting = list(graph[start])
        while waiting:
            name = waiting.pop()
            if name not in actual:
                actual.add(name)
                waiting += graph[name]
        assert start not in actual, start


def test_the_page_is_short() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    assert len(text.split()) <= 900
    assert max(map(len, text.splitlines())) <= 120


def test_status_reports_and_plans_import_no_torch() -> None:
    """It takes seconds to import, and they do without."""
    code = "import sys, highway.report.site, highway.report.status, highway.tables.explain, highway.sweep.sweeper"
    subprocess.run([sys.executable, "-c", f"{code}; assert 'torch' not in sys.modules"], check=True)


@pytest.mark.parametrize("room_name", ["models", "gates", "blocks"])
def test_models_know_no_lightning_and_no_files(room_name: str) -> None:
    for path in (CODE / room_name).glob("*.py"):
        unwanted = r"^(?:from|import) (?:pytorch_lightning|hydra|omegaconf|pathlib)"
        assert not re.search(unwanted, path.read_text(), re.MULTILINE), path
