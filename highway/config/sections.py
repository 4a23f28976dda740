"""The sections of a configuration, its other keys, and the models that describe them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from highway.cards.callbacks import CALLBACKS, CallbackOptions
from highway.cards.card import Card
from highway.cards.datasets import DATASETS
from highway.cards.gates import GATES, GateOptions, ScoreGateOptions, StateGateOptions
from highway.cards.models import MODELS
from highway.cards.optimisers import OPTIMISERS, SCHEDULES, Optimizer, ScheduleOptions
from highway.cards.tasks import TASKS, TaskOptions
from highway.config.experiment import Experiment, Layers
from highway.config.trainer import Debug, Logger, Trainer
from highway.keys.declare import Written

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


class CardSection(NamedTuple):
    """A section in which a key names a card: the keys that all cards share, the naming key, and the cards."""

    shared: type[Written]
    key: str
    cards: Mapping[str, Card]


CARDS = {
    "gate": CardSection(GateOptions, "residual", GATES["residual"]),
    "gate.score": CardSection(ScoreGateOptions, "name", GATES["score"]),
    "gate.state": CardSection(StateGateOptions, "name", GATES["state"]),
    "task": CardSection(TaskOptions, "name", TASKS),
    "optimizer": CardSection(Optimizer, "name", OPTIMISERS),
    "schedule": CardSection(ScheduleOptions, "name", SCHEDULES),
    "callback": CardSection(CallbackOptions, "name", CALLBACKS),
}


def kind_of(section: str, values: Any) -> type[Written]:
    """Return the model of a section's keys: with those that the card adds which the values choose.

    An unknown card adds none. Model and data set have no keys in common: theirs must be known.
    """
    if section == "model":
        return MODELS[values["name"]].options
    if section == "dataset":
        return TASKS[DATASETS[values["name"]].task].dataset_keys
    if section not in CARDS:
        return SECTIONS[section]
    shared, key, cards = CARDS[section]
    name = values.get(key) if isinstance(values, dict) else None
    card = cards.get(name) if isinstance(name, str) else None
    return card.options if card and card.options else shared


def kinds_of(section: str) -> list[type[Written]]:
    """Return the models that may describe a section."""
    return [*card_options(section).values(), *(kind for name, kind in SECTIONS.items() if name == section)]


def kinds_with(section: str, key: str) -> list[str]:
    """Return the names of the cards, or of the tasks of data sets, that have a key which others lack."""
    shared = CARDS[section].shared.model_fields if section in CARDS else ()
    return [name for name, kind in card_options(section).items() if key in kind.model_fields and key not in shared]


def card_options(section: str) -> dict[str, type[Written]]:
    """Return the models of a section's keys by the name of the card that adds some; of `dataset`, by its task."""
    if section == "model":
        return {name: card.options for name, card in MODELS.items()}
    if section == "dataset":
        return {name: card.dataset_keys for name, card in TASKS.items()}
    cards = CARDS[section].cards if section in CARDS else {}
    return {name: card.options for name, card in cards.items() if card.options}
