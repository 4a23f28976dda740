"""Which code computed a record: a hash over the syntax trees of the modules that its cards lead to.

The modules are those that the cards of model, gates, data set and task name, those that every run goes through, and
what these import of ours in the rooms that compute. Comments, docstrings and paths do not count, nor does the version
of Python. Where a finished cell's hash is not today's, reports say so; whether its numbers changed, the revisions say.
"""

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from highway.config.experiment import Experiment
from highway.config.gates import GATES

ROOT = Path(__file__).parents[2]
COMPUTING = ("gates", "blocks", "models", "data", "tasks", "describe")  # rooms, and modules of none, that are followed
FETCHING = ("highway.data.download", "highway.data.places")  # what it fetches is checked by its sha256
OF_EVERY_RUN = ("highway.train", "highway.run.build", "highway.run.recorder", "highway.config.layers")
OF_A_TIMING = ("highway.run.timing", "highway.run.trial")


def fingerprint(experiment: Experiment) -> str:
    places, task = experiment.model_card.places, experiment.task_card
    gates = [GATES[interface][name].code for interface, name in experiment.gate.chosen().items() if interface in places]
    named = [experiment.model_card.code, experiment.dataset_card.reader, *gates, task.data, task.module, task.ends]
    return _hashed(frozenset({*(code.split(":")[0] for code in named), *OF_EVERY_RUN}))


def of_together(rows: Iterable[Experiment]) -> str:
    """Of rows that are timed together."""
    found = sorted({fingerprint(row) for row in rows})
    return hashlib.sha256(f"{found} {_hashed(frozenset(OF_A_TIMING))}".encode()).hexdigest()[:12]


@cache
def _hashed(roots: frozenset[str]) -> str:
    digest = hashlib.sha256()
    for module in sorted(_reached(roots)):
        digest.update(f"{module} {_shape(module)}\n".encode())
    return digest.hexdigest()[:12]


def _reached(roots: Iterable[str]) -> set[str]:
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += [name for name in _imports(module) if _computes(name)]
    return found


def _computes(module: str) -> bool:
    return module.startswith("highway.") and module.split(".")[1] in COMPUTING and module not in FETCHING


@cache
def _tree(module: str) -> ast.Module:
    path = ROOT / (module.replace(".", "/") + ".py")
    return ast.parse(path.read_text()) if path.exists() else ast.Module([], [])


def _imports(module: str) -> list[str]:
    found: list[str] = []
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        if isinstance(node, ast.ImportFrom) and node.module:
            inside = [f"{node.module}.{name.name}" for name in node.names]
            found += [one for one in inside if (ROOT / (one.replace(".", "/") + ".py")).exists()] or [node.module]
    return found


@cache
def _shape(module: str) -> str:
    return hashlib.sha256(repr(_canonical(_tree(module))).encode()).hexdigest()


def _canonical(node: Any) -> Any:
    """A tree as nested tuples: no positions, no docstrings, no field that is empty (new Pythons add some)."""
    if isinstance(node, list):
        return [_canonical(one) for one in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = {name: getattr(node, name, None) for name in node._fields}
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
        fields["body"] = node.body[1:]
    return type(node).__name__, [(name, _canonical(value)) for name, value in fields.items() if value not in (None, [])]
