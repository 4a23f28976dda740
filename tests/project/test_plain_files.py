"""Every file of a run, a sweep or a report is opened by highway/files/plain.py, which waits for no FIFO."""

import ast
from pathlib import Path

import highway

PACKAGE = Path(highway.__file__).parent
OPENING = ("open", "read_text", "read_bytes")
OTHER_FILES = {  # the package's own files, and the system's
    "config/",
    "preview/explain.py",
    "run/machine.py",
    "run/profile.py",
    "sweep/kept.py",
    "sweep/reading.py",
    "files/",
    "testing/",
    "commands/cli.py",
    "commands/init.py",
    "commands/translate.py",  # a text may come through a FIFO, as in --file <(command)
    "commands/version.py",
}
WRITTEN = {"ledger/lease.py", "data/transfer.py", "sweep/local.py", "sweep/ray.py", "sweep/submitted.py"}


def opened(path: Path) -> list[str]:
    """Return the calls of a module that open a file in Python's own way."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    own = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "open"]
    own += [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in OPENING[1:]]
    return [f"{path}:{call.lineno} {ast.unparse(call)}" for call in own]


def test_files_are_opened_in_one_place() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith(tuple(OTHER_FILES)):
            found += [call for call in opened(path) if name not in WRITTEN or not writes(call)]
    assert not found


def writes(call: str) -> bool:
    return any(mode in call for mode in ("'x'", "'ab'", "'w'", "'ab' if append else 'wb'"))
