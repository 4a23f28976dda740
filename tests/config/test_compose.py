"""Composing agrees with Hydra, leaves no trace in the next composition, and knows where each value comes from."""

import hydra
from omegaconf import OmegaConf

from highway.config.check import check, flat
from highway.config.compose import compose, experiment
from highway.config.home import CONF
from highway.config.origins import NEUTRAL, origins
from highway.sweep.reading import load_table

CHOICES = ["model=transformer_xl", "dataset=enwik8", "optimizer=adam_cosine", "gate=sdu_tanh", "layers=l1-3"]
TYPED = [*CHOICES, "model.width=32", "seed=7"]


def test_it_composes_as_hydra_does() -> None:
    """Tried with overrides as typed, and with a row of one table of each paper."""
    tables = map(load_table, ("highway_t5", "hsg_t1", "gated_resnet_t1", "r_transformer_t2"))
    recipes = [table.overrides(table.rows[-1], "paper", seed=3) for table in tables]
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        assert compose(TYPED) == hydra.compose("train", TYPED)
        assert all(check(hydra.compose("train", recipe)) == experiment(recipe) for recipe in map(list, recipes))


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
    assert not set(flat(OmegaConf.to_container(compose(TYPED), resolve=False))) - set(set_by)
