"""The keys in the help of `highway train`: each has its options and a description."""

import re

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from highway.config.commented import commented
from highway.config.groups import options
from highway.config.home import CONF
from highway.config.sections import ROOT

KEY = re.compile(r"(?P<key> *\w+):(?P<value>[^#]*)(?:# (?P<comment>.+))?")


def comments(*overrides: str) -> dict[str, str | None]:
    """Return the comment of each key, which has its indentation, of a composed configuration."""
    with initialize_config_dir(str(CONF), version_base=None):
        text = commented(compose("train", list(overrides)))
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("- ")]
    return {match["key"]: match["comment"] for match in map(KEY.fullmatch, lines) if match is not None}


@pytest.mark.parametrize(
    "choice", [f"{group}={option}" for group in ("model", "dataset", "optimizer") for option in options(group)]
)
def test_every_key_has_a_comment(choice: str) -> None:
    bare = {key for key, comment in comments(choice).items() if comment is None}
    assert bare <= {*ROOT, "  name"}


def test_comments_come_from_the_declarations() -> None:
    found = comments("model=rhn", "dataset=ptb_word_rhn")
    assert found["  depth"] == "micro-layers in a step"
    assert found["  schedule"] == "constant | plateau | cosine | inverse_square_root | steps; of the learning rate"
    assert found["seeds"] == "seeds of a table, as 1,2,3" and found["data_dir"] == "folder of the data"


def test_what_is_printed_is_the_configuration() -> None:
    with initialize_config_dir(str(CONF), version_base=None):
        config = compose("train")
    assert OmegaConf.create(commented(config)) == config
