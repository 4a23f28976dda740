"""The neutral defaults of all keys stay as they are, because a run is identified by what differs from them."""

from pathlib import Path
from typing import Any

import yaml

from highway.cards.models import MODELS
from highway.cards.tasks import TASKS
from highway.config.experiment import CARDS, SECTIONS, card_options
from highway.ledger.identity import PARTS, neutral

FROZEN = Path(__file__).parents[1] / "fixtures" / "neutral.yaml"


def test_neutral_defaults_are_frozen() -> None:
    sections: dict[str, Any] = {
        **{name: card.options for name, card in MODELS.items()},
        **{f"dataset_{name}": card.dataset_keys for name, card in TASKS.items()},
        **{name: kind for name, kind in SECTIONS.items() if name in PARTS},
        **{f"{section}_{name}": kind for section in CARDS for name, kind in card_options(section).items()},
    }
    frozen, today = yaml.safe_load(FROZEN.read_text()), {name: neutral(kind) for name, kind in sections.items()}
    new = {name: {k: v for k, v in keys.items() if k not in frozen.get(name, {})} for name, keys in today.items()}
    new = {name: keys for name, keys in new.items() if keys}
    assert not new, f"Add these keys to {FROZEN}, each to its section:\n{yaml.safe_dump(new, sort_keys=False)}"
    assert frozen == today, "A default has changed. That would rename the directories of runs: change it back."
