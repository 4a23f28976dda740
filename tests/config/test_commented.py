"""The configuration that `highway train --help` shows: what a run is composed of, each key with its description."""

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from highway.config.commented import commented
from highway.config.home import CONF


def test_help_shows_the_configuration_with_the_description_of_each_key() -> None:
    with initialize_config_dir(str(CONF), version_base=None):
        config = compose("train", ["model=rhn", "dataset=ptb_word_rhn"])
    text = commented(config)
    assert OmegaConf.create(text) == config
    assert "# micro-layers in a step" in text and "# seeds of a table, as 1,2,3" in text
    assert "# constant | plateau | cosine | inverse_square_root | steps; of the learning rate" in text
