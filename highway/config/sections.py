"""The sections of a configuration, its other keys, and the models that describe them."""

from collections.abc import Mapping
from typing import Any

from highway.config.cards import Card
from highway.config.datasets import DATASETS
from highway.config.experiment import Experiment, Layers
from highway.config.gates import GATES, GateOptions, ScoreGateOptions, StateGateOptions
from highway.config.keys import Written
from highway.config.models import MODELS
from highway.config.optimisers import OPTIMISERS, SCHEDULES, Optimizer, ScheduleOptions
from highway.config.tasks import TASKS, TaskOptions
from highway.config.training import CALLBACKS, CallbackOptions, Debug, Logger, Trainer

SECTIONS: dict[str, type[Written]] = {  # the keys that a section has whatever its cards add
    "gate": GateOptions,
    "layers": Layers,
    "task": TaskOptions,
    "optimizer": Optimizer,
    "schedule": ScheduleOptions,
    "callback": CallbackOptions,
    "trainer": Trainer,
    "logger": Logger,
    "debug": Debug,
}
SWEEP_ONLY = (
    *("table", "seeds", "extra_rows", "rows"),
    *("name", "title", "columns", "choose"),
    *("fail_fast", "retry_failed", "rerun", "plan"),
)
ROOT = tuple(Experiment.model_fields)

CARDS: dict[str, tuple[str, Mapping[str, Card]]] = {  # section -> the key that names its card, and the cards
    "gate": ("residual", GATES["residual"]),
    "task": ("name", TASKS),
    "optimizer": ("name", OPTIMISERS),
    "schedule": ("name", SCHEDULES),
    "callback": ("name", CALLBACKS),
}
INSIDE_GATE: dict[str, type[Written]] = {"score": ScoreGateOptions, "state": StateGateOptions}  # below `gate`


def kind_of(section: str, values: Any) -> type[Written]:
    """Return the model of a section's keys: with those that the card adds which the values choose.

    An unknown card adds none. Model and data set have no keys in common: theirs must be known.
    """
    if section == "model":
        return MODELS[values["name"]].options
    if section == "dataset":
        return TASKS[DATASETS[values["name"]].task].dataset_keys
    key, cards = CARDS.get(section, ("", {}))
    return _with_card(cards, values.get(key) if isinstance(values, dict) else None, SECTIONS[section])


def kind_in_gate(interface: str, values: Any) -> type[Written]:
    """Return the model of the keys of a score gate or of a state gate."""
    return _with_card(
        GATES[interface], values.get("name") if isinstance(values, dict) else None, INSIDE_GATE[interface]
    )


def _with_card(cards: Mapping[str, Card], name: Any, base: type[Written]) -> type[Written]:
    card = cards.get(name) if isinstance(name, str) else None
    return card.options if card and card.options else base


def kinds_of(section: str) -> list[type[Written]]:
    """Return the models that may describe a section."""
    return [*of_cards(section).values(), *(kind for name, kind in SECTIONS.items() if name == section)]


def kinds_with(section: str, key: str) -> list[str]:
    """Return the names of the cards, or of the tasks of data sets, that have a key which others lack."""
    shared = SECTIONS[section].model_fields if section in SECTIONS else ()
    return [name for name, kind in of_cards(section).items() if key in kind.model_fields and key not in shared]


def of_cards(section: str) -> dict[str, type[Written]]:
    """Return the models of a section's keys by the name of the card that adds some; of `dataset`, by its task."""
    if section == "model":
        return {name: card.options for name, card in MODELS.items()}
    if section == "dataset":
        return {name: card.dataset_keys for name, card in TASKS.items()}
    _, cards = CARDS.get(section, ("", {}))
    return {name: card.options for name, card in cards.items() if card.options}
