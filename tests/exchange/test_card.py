"""A model card: what the Hub reads is in it, the weights are those of the run, and nothing else is called a run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from highway.errors import Refused
from highway.exchange.card import gates, write_card
from highway.files.writing import read_json, write_text
from highway.ledger.directory import RunDirectory
from highway.ledger.record import write_record
from tests.support.commands import typed
from tests.support.overrides import SHORT
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


def test_a_gate_on_no_layer_is_no_tag() -> None:
    none = {"attention": "none", "feed_forward": "none", "as_released": False}
    assert gates({**CONFIG, "layers": none}) == []
    assert gates({**CONFIG, "layers": {**none, "attention": "l1-2"}}) == ["sdu gate"]
    assert gates({"gate": {**CONFIG["gate"], "state": {"name": "hsg"}}, "layers": none}) == ["hsg gate"]


def test_a_timing_has_no_card(tmp_path: Path) -> None:
    run = put(tmp_path, "tanh", 1, 1.4)
    write_text(run / "config.yaml", yaml.safe_dump({"baseline": CONFIG, "tanh": CONFIG}))
    with pytest.raises(Refused, match="holds a timing"):
        write_card(run, tmp_path / "card")


def test_weights_of_another_step_get_no_card(
    once: Callable[..., tuple[RunDirectory, dict[str, Any]]], tmp_path: Path
) -> None:
    """An import over an interrupted run leaves the weights that this run had saved beside the imported record."""
    run = once(SHORT, tmp_path / "outputs")[0].path
    assert "model.safetensors" in typed("records.py", "card", str(run)).stdout
    result = read_json(run / "result.json")
    write_record(run, {**result, "best_step": result["best_step"] + 1})
    refused = typed("records.py", "card", str(run))
    assert refused.returncode == 2 and "has the weights of step" in refused.stderr
