"""The fingerprint of the code that computed a record: what changes it, and what does not."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from highway.config.experiment import Experiment
from highway.config.project import Project
from highway.ledger import fingerprint as fingerprints
from highway.ledger.fingerprint import fingerprint

Compose = Callable[..., Experiment]


def changed(monkeypatch: pytest.MonkeyPatch, module: str, old: str, new: str) -> None:
    """Make the fingerprint see a module as if it had been edited."""
    text = (fingerprints.CODE.parent / (module.replace(".", "/") + ".py")).read_text()
    assert old in text
    tree, edited = fingerprints._tree, ast.parse(text.replace(old, new))
    monkeypatch.setattr(fingerprints, "_tree", lambda name: edited if name == module else tree(name))
    for cached in ("_hashed", "_shape"):  # a new process would have no caches
        monkeypatch.setattr(fingerprints, cached, getattr(fingerprints, cached).__wrapped__)


RESIDUAL = "highway.gates.residual"


def test_comments_and_docstrings_do_not_count(experiment: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(experiment("gate=sdu_tanh"))
    old = '    """A gate with two maps: the transform gate W1, b1 and the transform W2, b2."""'
    changed(monkeypatch, RESIDUAL, old, '    """Two."""  # maps')
    assert fingerprint(experiment("gate=sdu_tanh")) == before


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        (RESIDUAL, "x + fx + self.psi", "x - fx + self.psi"),
        ("highway.blocks.layers", "EPSILON = 1e-12", "EPSILON = 1e-11"),
        ("highway.tasks.optimisation", "return self.lr", "return 2 * self.lr"),
        ("highway.data.lanes", "position % len", "-position % len"),
        ("highway.models.symbols", "model.width_in**0.5", "model.width_in**0.6"),
    ],
)
def test_what_computes_counts(
    experiment: Compose, monkeypatch: pytest.MonkeyPatch, module: str, old: str, new: str
) -> None:
    before = fingerprint(experiment("gate=sdu_tanh"))
    changed(monkeypatch, module, old, new)
    assert fingerprint(experiment("gate=sdu_tanh")) != before


@pytest.mark.parametrize("module", ["highway.models.transformer_xl", "highway.data.enwik8"])
def test_what_a_cell_does_not_use_does_not_count(
    experiment: Compose, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    before = fingerprint(experiment())
    changed(monkeypatch, module, "import", "import string; import")
    assert fingerprint(experiment()) == before


def test_it_does_not_depend_on_the_version_of_python() -> None:
    """The fingerprint leaves out empty fields, because newer Pythons add some."""
    tree = ast.parse("def f(x):\n    return x")
    function = tree.body[0]
    before = fingerprints._canonical(tree)
    function.type_params = []  # type: ignore[attr-defined]
    assert fingerprints._canonical(tree) == before


def test_what_a_project_imports_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fingerprint follows relative imports, and reads the file of a package itself."""
    files = {
        "mine/__init__.py": "SCALE = 1",
        "mine/helper.py": "def psi(x): return x",
        "mine/gate.py": "from .helper import psi\nfrom . import SCALE",
        "mine/sub/__init__.py": "from ..helper import psi",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(fingerprints, "project", lambda: Project(tmp_path, "mine", None))

    def hashed(module: str) -> str:
        for cached in (fingerprints._hashed, fingerprints._tree, fingerprints._shape):
            cached.cache_clear()
        return fingerprints._hashed(frozenset([module]))

    def edited(name: str, old: str, new: str) -> list[str]:
        """Return the modules of which an edit changes the fingerprint."""
        before = {module: hashed(module) for module in ("mine.gate", "mine.sub")}
        (tmp_path / name).write_text((tmp_path / name).read_text().replace(old, new))
        return [module for module in before if hashed(module) != before[module]]

    assert edited("mine/helper.py", "return x", "return 2 * x") == ["mine.gate", "mine.sub"]
    assert edited("mine/__init__.py", "SCALE = 1", "SCALE = 2") == ["mine.gate"]
    assert edited("mine/sub/__init__.py", "psi", "psi as phi") == ["mine.sub"]
