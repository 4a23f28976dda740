"""The rooms of docs/ARCHITECTURE.md: which rooms exist and what each imports, without a circle."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = ROOT / "highway"
OPEN = {"errors", "clock", "keys", "cards", "config", "machine"}  # the first rooms, which every other may import
ENTRANCES = {"__init__", "__main__"}  # `import highway` and `python -m highway`
ROW = re.compile(r"^\| `(?P<room>\w+)` \|.*\|(?P<imports>[^|]*)\|$", re.MULTILINE)


@cache
def picture() -> dict[str, set[str]]:
    """Return for each room the rooms that it may import, from the table in docs/ARCHITECTURE.md."""
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    rooms = {match["room"]: set(re.findall(r"\w+", match["imports"])) for match in ROW.finditer(text)}
    return {room: set(rooms) - {room} if to == {"everything"} else to for room, to in rooms.items()}


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


def test_every_room_is_in_the_picture() -> None:
    assert {room(name) for name in modules()} - ENTRANCES == set(picture())
    assert set([*picture()][: len(OPEN)]) == OPEN


def test_imports_follow_the_arrows() -> None:
    known, allowed, wrong = set(modules()), picture(), []
    for name, tree in modules().items():
        if (here := room(name)) not in ENTRANCES:
            may = {here, *allowed[here], *(OPEN if here not in OPEN else ())}
            wrong += [f"{name} imports {other}" for other in imports(tree, known) if room(other) not in may]
    assert not wrong


def test_every_arrow_is_used() -> None:
    known, allowed = set(modules()), picture()
    used: dict[str, set[str]] = {"cli": set(allowed["cli"])}  # it may import everything
    for name, tree in modules().items():
        used.setdefault(room(name), set()).update(room(other) for other in imports(tree, known))
    assert {here: rooms - used[here] for here, rooms in allowed.items() if rooms - used[here]} == {}


def test_a_room_imports_only_rooms_above_it() -> None:
    above: set[str] = set()
    for name, may in picture().items():
        assert may <= above, name
        above.add(name)


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


@pytest.mark.parametrize("room_name", ["models", "gates", "blocks"])
def test_models_know_no_lightning_and_no_files(room_name: str) -> None:
    for path in (CODE / room_name).glob("*.py"):
        unwanted = r"^(?:from|import) (?:pytorch_lightning|hydra|omegaconf|pathlib)"
        assert not re.search(unwanted, path.read_text(), re.MULTILINE), path
