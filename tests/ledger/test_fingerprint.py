"""The fingerprint of the code that computed a record: what changes it, and what does not."""

import ast
from collections.abc import Callable

import pytest

from highway.config.experiment import Experiment
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
