"""The one module that composes configurations agrees with Hydra, and knows where each value comes from."""

import ast
from pathlib import Path

import hydra
import pytest
from omegaconf import OmegaConf

from highway.config import compose
from highway.config.check import flat
from highway.config.home import CONF

CODE = Path(compose.__file__).parents[1]
CHOICES = ["model=transformer_xl", "dataset=enwik8", "optimizer=adam_cosine", "gate=sdu_tanh", "layers=l1-3"]


def test_the_version_whose_private_parts_are_used() -> None:
    assert hydra.__version__.rsplit(".", 1)[0] == compose.CHECKED_WITH, (
        f"highway/config/compose.py was written for Hydra {compose.CHECKED_WITH}: compare what it imports from "
        f"hydra._internal with Hydra {hydra.__version__}, then raise CHECKED_WITH"
    )


def test_one_module_uses_private_parts_of_hydra() -> None:
    users = set()
    for path in CODE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            users |= {path.name for name in names if name.startswith("hydra._internal")}
    assert users == {"compose.py"}


def test_it_composes_as_hydra_does() -> None:
    overrides = [*CHOICES, "model.width=32", "seed=7"]
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        expected = hydra.compose("train", overrides)
    assert compose.composer()(overrides) == expected


def test_choices_and_options() -> None:
    choices = compose.composer().choices(["dataset=nottingham", "model.width=32"])
    assert (choices["dataset"], choices["model"]) == ("nottingham", "transformer")
    assert compose.option("dataset", "nottingham")["metric"] == "nll"


@pytest.mark.parametrize(
    ("key", "origin"),
    [
        ("seed", "seed=7"),
        ("model.width", "model.width=32"),
        ("model.heads", "conf/model/transformer_xl.yaml"),
        ("trainer.threads", compose.NEUTRAL),
        ("layers.attention", "layers=l1-3"),
    ],
)
def test_origins(key: str, origin: str) -> None:
    overrides = [*CHOICES, "model.width=32", "seed=7"]
    assert compose.composer().origins(overrides)[key] == origin


def test_every_composed_key_has_an_origin() -> None:
    overrides = [*CHOICES, "model.width=32"]
    config = OmegaConf.to_container(compose.composer()(overrides), resolve=False)
    missing = set(flat(config)) - set(compose.composer().origins(overrides))
    assert not missing
