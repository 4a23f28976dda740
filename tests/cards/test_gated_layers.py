"""The group `layers`: its options have no files, and each follows from its name."""

from collections.abc import Callable
from pathlib import Path

import pytest

from highway.config.compose import experiment as composed
from highway.config.experiment import Experiment

Compose = Callable[..., Experiment]


@pytest.mark.parametrize(
    ("option", "attention", "feed_forward"),
    [
        ("all", (1, 2, 3, 4, 5, 6), (1, 2, 3, 4, 5, 6)),
        ("none", (), ()),
        ("attention_only", (1, 2, 3, 4, 5, 6), ()),
        ("l2", (2,), (2,)),
        ("l2-5", (2, 3, 4, 5), (2, 3, 4, 5)),
    ],
)
def test_any_range_is_an_option(
    experiment: Compose, option: str, attention: tuple[int, ...], feed_forward: tuple[int, ...]
) -> None:
    described = experiment("model.layers=6", "gate=sdu_tanh", f"layers={option}")
    assert described.gating.layers == {"attention": attention, "feed_forward": feed_forward}


def test_a_file_may_choose_layers_in_its_defaults(tmp_path: Path) -> None:
    """A recipe file of a user overrides the group, and the command line overrides the recipe."""
    recipe = tmp_path / "budget" / "short.yaml"
    recipe.parent.mkdir()
    recipe.write_text("# @package _global_\ndefaults:\n  - override /layers: l2-3\nbudget: short\n")
    arguments = [f"hydra.searchpath=[file://{tmp_path}]", "gate=sdu_tanh", "budget=short"]
    assert composed(arguments).layers.attention == "l2-3"
    assert composed([*arguments, "layers=attention_only"]).layers.feed_forward == "none"
