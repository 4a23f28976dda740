"""The configuration that `highway train --help` shows: what a run is composed of, each key with its description."""

from omegaconf import OmegaConf

from highway.config.commented import commented
from highway.config.compose import compose


def test_help_shows_the_configuration_with_the_description_of_each_key() -> None:
    config = compose(["model=rhn", "dataset=ptb_word_rhn"])
    text = commented(config)
    assert OmegaConf.create(text) == config
    assert "# micro-layers in a step" in text and "# seeds of a table, as 1,2,3" in text
    assert "# constant | plateau | cosine | inverse_square_root | steps; of the learning rate" in text
