"""A model card: the Hub's own reader reads it, and its numbers, weights and settings are those of the run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

from highway.config.home import REFERENCE
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.ledger.files import read_json
from highway.ledger.record import write_record
from highway.python.model_card import write_card
from tests.support.overrides import SHORT


def test_a_card_has_the_numbers_weights_and_settings_of_its_run(
    once: Callable[..., tuple[RunDirectory, dict[str, Any]]], tmp_path: Path
) -> None:
    directory, result = once(SHORT, tmp_path / "outputs")
    paths = write_card(directory.path, tmp_path / "card")
    assert [path.name for path in paths] == ["README.md", "config.json", "result.json", "model.safetensors"]
    card = ModelCard.load(paths[0])
    assert card.data.model_name == directory.id and card.data.library_name == "highway"
    numbers = {evaluation.metric_type: evaluation.metric_value for evaluation in card.data.eval_results}
    assert numbers["test_loss"] == result["metrics"]["test_loss"]["best"]
    assert f"| test_loss | {numbers['test_loss']:.6g} |" in card.text and "highway.load" in card.text
    assert "| seen_loss |" in card.text and "seen_loss" not in numbers, "no result: the text was trained on"
    assert json.loads(paths[1].read_text())["model"]["name"] in card.data.tags
    assert paths[3].read_bytes() == directory.best.read_bytes()
    write_record(directory.path, {**read_json(paths[2]), "best_step": result["best_step"] + 1})
    with pytest.raises(Refused, match="has the weights of step"):
        write_card(directory.path, tmp_path / "card")


def test_a_published_record_has_a_card_without_weights(tmp_path: Path) -> None:
    run = REFERENCE / "cells" / "transformer-0f22ae17b101" / "seed1"
    paths = write_card(run, tmp_path / "card")
    card, record = ModelCard.load(paths[0]), read_json(run / "result.json")
    assert len(paths) == 3 and "no weights" in card.text and "highway.load" not in card.text
    assert card.text.strip().startswith("# transformer") and record["command"] in card.text
    assert "Budget mini; full data" in card.text
    with pytest.raises(Refused, match="holds no finished run"):
        write_card(tmp_path, tmp_path / "card")
