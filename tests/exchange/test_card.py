"""A model card: what the Hub reads is in it, the weights are those of the run, and nothing else is called a run."""

import json
from pathlib import Path

import pytest
import yaml

from highway.errors import Refused
from highway.exchange.card import write_card
from highway.files.writing import write_text
from tests.support.tables import put

CONFIG = {
    "model": {"name": "transformer"},
    "dataset": {"name": "penn_treebank"},
    "gate": {"residual": "sdu", "score": {"name": "none"}, "state": {"name": "none"}},
}


def test_a_card_has_metadata_numbers_weights_and_configuration(tmp_path: Path) -> None:
    run = put(tmp_path, "tanh", 1, 1.4, command="highway train gate=sdu_tanh")
    write_text(run / "config.yaml", yaml.safe_dump(CONFIG))
    write_text(run / "checkpoints" / "best.safetensors", "the weights")
    paths = write_card(run, tmp_path / "card")
    assert [path.name for path in paths] == ["README.md", "config.json", "result.json", "model.safetensors"]
    _, metadata, text = paths[0].read_text().split("---\n", 2)
    (model,) = yaml.safe_load(metadata)["model-index"]
    numbers = {metric["type"]: metric["value"] for metric in model["results"][0]["metrics"]}
    assert numbers["test_bpc"] == 1.4 and "sdu gate" in yaml.safe_load(metadata)["tags"]
    assert "| test_bpc | 1.4 | 2.4 |" in text and "highway train gate=sdu_tanh" in text and "highway.load" in text
    assert "# transformer with sdu gate on penn_treebank" in text
    assert json.loads(paths[1].read_text()) == CONFIG and paths[3].read_text() == "the weights"


def test_a_record_without_weights_says_so_and_another_folder_is_refused(tmp_path: Path) -> None:
    run = put(tmp_path, "tanh", 1, 1.4)
    write_text(run / "config.yaml", yaml.safe_dump(CONFIG))
    paths = write_card(run, tmp_path / "card")
    assert len(paths) == 3 and "no weights" in paths[0].read_text() and "highway.load" not in paths[0].read_text()
    with pytest.raises(Refused, match="holds no finished run"):
        write_card(tmp_path, tmp_path / "card")
