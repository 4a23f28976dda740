"""The fingerprint of the code that computed a record: a hash of the syntax trees of its modules.

It covers the modules that the cards of model, gates, data set and task name, and those of every run. Their imports from
the rooms that compute count, too; comments, docstrings, paths and the version of Python do not. Reports mark a finished
run whose fingerprint differs from that of today's code. The revisions say whether its numbers changed.
"""

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from highway.config.experiment import Experiment
from highway.config.gates import GATES
from highway.config.home import CODE
from highway.config.metrics import measures_of
from highway.config.project import project

COMPUTING = ("gates", "blocks", "models", "data", "tasks", "describe")  # rooms and modules whose imports are followed
FETCHING = ("highway.data.download", "highway.data.sources")  # left out: the sha256 of the fetched files is checked
OF_EVERY_RUN = ("highway.train", "highway.run.build", "highway.run.recorder", "highway.config.layers")
OF_A_TIMING = ("highway.timing", "highway.run.trial")


def fingerprint(experiment: Experiment) -> str:
    """Return the fingerprint of the code that an experiment uses."""
    return _hashed(frozenset({*named_modules(experiment), *OF_EVERY_RUN}))


def named_modules(experiment: Experiment) -> set[str]:
    """Return the modules that the cards of an experiment name."""
    interfaces, task = experiment.model_card.locations, experiment.task_card
    chosen = experiment.gate.chosen().items()
    gates = [GATES[interface][name].code for interface, name in chosen if interface in interfaces]
    measures = measures_of(experiment.task).values()
    named = [experiment.model_card.code, experiment.dataset_card.reader, *gates, task.data, task.module, task.ends]
    return {code.split(":")[0] for code in (*named, *measures)}


def of_together(rows: Iterable[Experiment]) -> str:
    """Return the fingerprint of rows that are timed together."""
    return joined(map(fingerprint, rows))


def joined(fingerprints: Iterable[str]) -> str:
    """Return the fingerprint of rows that are timed together, from the fingerprint of each."""
    together = f"{sorted(set(fingerprints))} {_hashed(frozenset(OF_A_TIMING))}"
    return hashlib.sha256(together.encode()).hexdigest()[:12]


@cache
def _hashed(roots: frozenset[str]) -> str:
    digest = hashlib.sha256()
    for module in sorted(_reached(roots)):
        digest.update(f"{module} {_shape(module)}\n".encode())
    return digest.hexdigest()[:12]


def _reached(roots: Iterable[str]) -> set[str]:
    """Return the modules and all that they import from the rooms that compute."""
    reached: set[str] = set()
    waiting = list(roots)
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting += [name for name in _imports(module) if _computes(name)]
    return reached


def _computes(module: str) -> bool:
    if (current := project()) and module.split(".")[0] == current.package:
        return True
    return module.startswith("highway.") and module.split(".")[1] in COMPUTING and module not in FETCHING


def _file(module: str) -> Path | None:
    """Return the file of one of our modules or of the project's; None if it is neither."""
    name, current = module.replace(".", "/"), project()
    paths = [CODE.parent / f"{name}.py"]
    paths += [current.folder / file for file in (f"{name}.py", f"{name}/__init__.py")] if current else []
    return next((path for path in paths if path.exists()), None)


@cache
def _tree(module: str) -> ast.Module:
    path = _file(module)
    return ast.parse(path.read_text()) if path else ast.Module([], [])


def _imports(module: str) -> list[str]:
    imported: list[str] = []
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            imported += [name.name for name in node.names]
        if isinstance(node, ast.ImportFrom):
            source = _source(module, node)
            inside = [f"{source}.{name.name}" for name in node.names]
            modules = [name for name in inside if _file(name)]
            imported += modules or [source]
    return imported


def _source(module: str, node: ast.ImportFrom) -> str:
    """Return the module from which a module imports: `.helper` is beside it, `..helper` a package further up."""
    if not node.level:
        return node.module or ""
    path, parts = _file(module), module.split(".")
    up = node.level - bool(path and path.name == "__init__.py")
    return ".".join([*parts[: len(parts) - up], *([node.module] if node.module else [])])


@cache
def _shape(module: str) -> str:
    return hashlib.sha256(repr(_canonical(_tree(module))).encode()).hexdigest()


def _canonical(node: object) -> object:
    """Return a tree as nested tuples without positions, docstrings and empty fields (new Pythons add some)."""
    if isinstance(node, list):
        return [_canonical(element) for element in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = {name: getattr(node, name, None) for name in node._fields}
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
        fields["body"] = node.body[1:]
    return type(node).__name__, [(name, _canonical(value)) for name, value in fields.items() if value not in (None, [])]
