"""A table whose learning rate is chosen by validation, for sweeps that run in processes of their own."""

from pathlib import Path

import pytest
import yaml

from highway.config.project import SETTING
from highway.ledger.directory import RunDirectory
from highway.testing.runs import curve, same_weights
from tests.support.overrides import TINY
from tests.support.sweeps import results
from tests.support.tables import content

STEPS = ["trainer.max_steps=40", "trainer.validate_every=5", "trainer.log_every=5", "trainer.checkpoint_seconds=0.2"]
RECIPE = ["dataset=ptb_char", "dataset.source=sample", *TINY[1:8], "layers=all", "model.layers=1", "trainer.threads=1"]
RULE = {"optimizer.lr": [0.01, 0.5, 1000], "by": "valid_bpc"}
SWEEP = ("table=tuned", "budget=smoke", "seeds=1,2")


@pytest.fixture
def tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the table into a project, to which the commands of this test belong."""
    project = tmp_path / "project"
    for path, text in {
        "pyproject.toml": '[tool.highway]\npackage = "tuned_project"\n',
        "tuned_project/__init__.py": "",
        "conf/table/tuned.yaml": yaml.safe_dump(
            content(id="tuned", recipe=RECIPE, choose=RULE, budgets={"smoke": STEPS})
        ),
    }.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    monkeypatch.setenv(SETTING, str(project))


def outcomes(folder: Path) -> dict[str, str]:
    """Return how each run has ended, by its directory below `folder`."""
    return {str(path.parent.relative_to(folder)): RunDirectory(path.parent).status for path in results(folder)}


def chosen_alike(folder: Path, calm: Path) -> bool:
    """Return whether the runs of two folders of outputs ended alike, the finished ones with equal weights."""
    names = [name for name, status in outcomes(calm).items() if status == "finished"]
    pairs = [[RunDirectory(outputs / name) for outputs in (folder, calm)] for name in names]
    return (
        outcomes(folder) == outcomes(calm)
        and bool(pairs)
        and all(same_weights(a.last, b.last) and same_weights(a.best, b.best) for a, b in pairs)
        and all(curve(a) == curve(b) for a, b in pairs)
    )
