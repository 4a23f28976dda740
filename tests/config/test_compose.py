"""Composing agrees with Hydra, leaves no trace in the next composition, and knows where each value comes from."""

from pathlib import Path

import pytest
from hydra import compose as compose_theirs
from hydra import initialize_config_dir
from omegaconf import OmegaConf, open_dict

from highway.config import compose as composing
from highway.config.compose import compose, compose_with_hydra, experiment
from highway.config.origins import NEUTRAL, origins
from highway.keys.schema import dotted
from highway.ledger.files import write_text
from highway.tables.reading import load_table

CHOICES = ["model=transformer_xl", "dataset=enwik8", "optimizer=adam_cosine", "gate=sdu_tanh", "layers=l1-3"]
TYPED = [*CHOICES, "model.width=32", "seed=7"]


def assert_as_hydra(overrides: list[str]) -> None:
    """Compare with what Hydra composes by itself: values, and the order of keys."""
    by_hydra = compose_with_hydra(overrides)
    with open_dict(by_hydra):
        del by_hydra["hydra"]
    assert OmegaConf.to_yaml(compose(overrides)) == OmegaConf.to_yaml(by_hydra)


def test_it_composes_as_hydra_does() -> None:
    """Tried with overrides as typed, and with the last row of one table of each paper."""
    assert_as_hydra(TYPED)
    for table in map(load_table, ("highway_t5", "hsg_t1", "gated_resnet_t1", "r_transformer_t2")):
        for budget in ("paper", "smoke"):
            assert_as_hydra(table.overrides(table.at(budget)[-1], budget, seed=3))


OWN = {  # options of a folder of one's own, in which order and package decide
    "gate/mine": "defaults: [sdu_tanh]\nactivation: sigmoid\n",
    "gate/sub/mine": "defaults: [/gate/_neutral, _self_]\nkernel: 9\n",
    "debug/mine": "# @package _global_\ndefaults: [override /gate: sdu_tanh]\nseed: 5\n",
    "budget/whole": "# @package _global_\nbudget: paper\ndataset: {final: null}\n",
    "budget/own": "# @package _global_\ndefaults: [whole, _self_]\ndataset: {final: {lanes: 2}}\n",
}


@pytest.mark.parametrize("option", OWN)
def test_options_of_ones_own_are_composed_as_hydra_does(option: str, tmp_path: Path) -> None:
    for name, content in OWN.items():
        write_text(tmp_path / f"{name}.yaml", content)
    group, _, name = option.partition("/")
    own = [f"hydra.searchpath=[file://{tmp_path}]", f"{group}={name}"]
    assert_as_hydra([*own, "model=rhn", "dataset=ptb_word_rhn", "model.width=32"])


@pytest.mark.filterwarnings("ignore:The version_base parameter")  # of Hydra 1.4
def test_it_works_inside_another_application_of_hydra(tmp_path: Path) -> None:
    (tmp_path / "theirs.yaml").write_text("x: 1\n")
    composing.loader.cache_clear()
    with initialize_config_dir(str(tmp_path), version_base="1.3"):
        assert experiment(TYPED).seed == 7
        assert compose_theirs("theirs", ["x=2"]) == {"x": 2}


def test_one_recipe_leaves_no_trace_in_the_next() -> None:
    overrides = ["gate=sdu_tanh", "budget=smoke"]
    before = repr(experiment(overrides))
    changed = experiment([*overrides, "model.width=32", "dataset.train={lanes:4}", "seed=7", "optimizer.lr=3"])
    changed.dataset.train.lanes = changed.trainer.log_every = 99
    assert repr(experiment(overrides)) == before


def test_every_value_has_an_origin() -> None:
    set_by = origins(TYPED)
    expected = {
        "seed": "seed=7",
        "model.width": "model.width=32",
        "model.heads": "conf/model/transformer_xl.yaml",
        "trainer.threads": NEUTRAL,
        "layers.attention": "layers=l1-3",
    }
    assert {key: set_by[key] for key in expected} == expected
    assert not set(dotted(OmegaConf.to_container(compose(TYPED), resolve=False))) - set(set_by)
