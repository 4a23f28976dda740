"""The configuration of one run: its sections, and how plain values become a checked `Experiment`.

An experiment is all that `highway.training.run` needs, free of Hydra's objects.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, SerializeAsAny, StringConstraints

from highway.cards import gated_layers
from highway.cards.callbacks import CALLBACKS, CallbackOptions
from highway.cards.card import Card
from highway.cards.datasets import DATASETS, DatasetCard
from highway.cards.gates import GATES, GateOptions, ScoreGateOptions, StateGateOptions
from highway.cards.models import MODELS, ModelCard, Remembers
from highway.cards.optimisers import OPTIMISERS, SCHEDULES, Optimizer, ScheduleOptions
from highway.cards.tasks import TASKS, TaskCard, TaskOptions
from highway.config.trainer import Debug, Logger, Trainer
from highway.errors import Refused, as_typed, listing
from highway.keys.schema import Extra, Folder, Text, Written, key, validated

LARGEST_SEED = 2**63 - 1  # the largest that torch takes
READS = {"sequence": "one text", "pair": "a source and its target"}


class Layers(Written):
    """The layers whose sublayers have a gate."""

    attention: Any = key(
        "none",
        "all, none, l1-3 or [1,3]: which attention sublayers have a gate, counted from 1; "
        "also for a location of the model that is no key here",
    )
    feed_forward: Any = key("none", "the same for the feed-forward sublayers")
    as_released: bool = key(False, "only the layers before the first gap, as the released Transformer-XL code has it")

    def at(self, location: str, layers_of_model: int) -> tuple[int, ...]:
        """Return the layers that have a gate at a location of the model."""
        name = location if location in type(self).model_fields else "attention"
        return gated_layers.selected(getattr(self, name), layers_of_model, f"layers.{name}")


@dataclass(frozen=True)
class Gating:
    """The gates of a backbone, and the layers (counted from 1) that have them."""

    options: GateOptions
    layers: dict[str, tuple[int, ...]]  # location -> gated layers

    def residual(self, layer: int, location: str | None) -> str:
        """Return the name of one sublayer's residual gate; a sublayer without a location has no gate."""
        return self.options.residual if location is not None and layer in self.layers[location] else "none"


class Folders(Written):
    """The folders of this machine."""

    data_dir: Folder
    outputs_dir: Folder


class Experiment(Folders):
    model: Any  # the keys of the model's card; `dataset` likewise
    gate: SerializeAsAny[GateOptions]
    layers: Layers
    dataset: Any
    task: SerializeAsAny[TaskOptions] = TaskOptions()
    optimizer: SerializeAsAny[Optimizer]
    schedule: SerializeAsAny[ScheduleOptions] = ScheduleOptions()
    callback: SerializeAsAny[CallbackOptions] = CallbackOptions()
    trainer: Trainer
    logger: Logger
    debug: Debug
    budget: Annotated[Text, StringConstraints(min_length=1)]
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)]

    def check(self) -> None:
        """Refuse a model, gates, layers and a data set that do not fit together."""
        model, dataset, card = self.model, self.dataset, self.model_card
        if self.task_card.dataset_keys is not TASKS[self.dataset_card.task].dataset_keys:
            raise Refused(
                f"task={self.task.name} does not train on {self.dataset_card.task} data, which {dataset.name} is. "
                "Choose another data set, or task=default."
            )
        if card.reads != self.task_card.reads:
            fitting = [name for name, other in MODELS.items() if other.reads == self.task_card.reads]
            raise Refused(
                f"{model.name} reads {READS[card.reads]}, and {dataset.name} is {self.dataset_card.task} data. "
                f"Models that read it: {listing(fitting)}."
            )
        self._check_locations()
        for location in card.locations.get("residual", ()):  # also without a gate: a wrong layer number is a mistake
            self.layers.at(location, model.layers)
        dataset.fits(self)

    def _check_locations(self) -> None:
        """Refuse a gate for which the model has no location."""
        gate, model, locations = self.gate, self.model, self.model_card.locations
        for interface, name in gate.chosen().items():
            if name == "none":
                continue
            if interface not in locations:
                offering = [other for other, card in MODELS.items() if interface in card.locations]
                raise Refused(
                    f"{model.name} has no location for the {interface} gate {name}"
                    f"{f'. Models that have one: {listing(offering)}' if offering else ''}."
                )
            if GATES[interface][name].sideways and self.remembers is not Remembers.NOTHING:
                raise Refused(
                    f"{name} reads neighbouring positions, and {model.name} continues from {self.remembers}, "
                    "which does not contain them. Choose another gate or model."
                )
        gate.fits(self)

    @property
    def model_card(self) -> ModelCard:
        return MODELS[self.model.name]

    @property
    def dataset_card(self) -> DatasetCard:
        return DATASETS[self.dataset.name]

    @property
    def task_card(self) -> TaskCard:
        """The card of the task: that of the data set, unless another is chosen."""
        return TASKS[self.dataset_card.task if self.task.name == "default" else self.task.name]

    @property
    def replaced(self) -> dict[str, Card]:
        """The cards of what replaces a part of every recipe: a task, a schedule or a callback of another name."""
        chosen: dict[str, tuple[Mapping[str, Card], str]] = {
            "task": (TASKS, self.task.name),
            "schedule": (SCHEDULES, self.schedule.name),
            "callback": (CALLBACKS, self.callback.name),
        }
        return {kind: cards[name] for kind, (cards, name) in chosen.items() if name in cards}

    @property
    def metric(self) -> str:
        """The metric shown beside the loss."""
        return str(self.dataset.metric)

    @property
    def remembers(self) -> Remembers:
        return self.model_card.remembers

    @property
    def gating(self) -> Gating:
        locations = self.model_card.locations.get("residual", ())
        return Gating(self.gate, {location: self._gated(location) for location in locations})

    @property
    def gates(self) -> dict[str, str]:
        """The names of the gates that act, by interface; a residual gate on no layer does not."""
        chosen = self.gate.chosen()
        if not any(self.gating.layers.values()):
            chosen["residual"] = "none"
        return {interface: name for interface, name in chosen.items() if name != "none"}

    def _gated(self, location: str) -> tuple[int, ...]:
        if self.gate.residual == "none":
            return ()
        chosen = self.layers.at(location, self.model.layers)
        if self.layers.as_released:
            return tuple(layer for number, layer in enumerate(chosen, start=1) if layer == number)
        return chosen

    def revisions(self) -> dict[str, int]:
        """Return the revision of each card that the run uses; the residual gate's is called `gate`."""
        gates = {interface: GATES[interface][name].revision for interface, name in self.gate.chosen().items()}
        return {
            "model": self.model_card.revision,
            "gate": gates.pop("residual"),
            **gates,
            "dataset": self.dataset_card.revision,
            "optimizer": OPTIMISERS[self.optimizer.name].revision,
            **{kind: card.revision for kind, card in self.replaced.items()},
            "task": self.task_card.revision,
        }


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
SWEEP_ONLY = (  # keys of `-m`, which no experiment has
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
    shared, naming, cards = CARDS[section]
    name = values.get(naming) if isinstance(values, dict) else None
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


def checked(values: dict[str, Any], extra: Extra = None) -> Experiment:
    """Return plain values as an experiment. Raise `Refused` with one sentence if anything in them is wrong."""
    _check_name(values, "model", list(MODELS))
    _check_name(values, "dataset", list(DATASETS))
    sections: dict[str, Any] = {}
    if isinstance(gate := values.get("gate"), dict):
        inside = {name: gate[name] for name in ("score", "state") if name in gate}
        sections["gate"] = {**gate, **{name: _section(f"gate.{name}", keys, extra) for name, keys in inside.items()}}
    for name in ("model", "dataset", *CARDS):
        if name in values:
            sections[name] = _section(name, sections.get(name, values[name]), extra)
    if {"schedule", "optimizer"} <= sections.keys() and sections["schedule"].name != "default":
        sections["optimizer"] = sections["optimizer"].without_schedule()
    experiment: Experiment = validated(Experiment, values | sections, extra=extra)
    return experiment


def checked_record(values: dict[str, Any]) -> Experiment:
    """Return the configuration of a record, which an earlier version may have written, as an experiment."""
    known = {key: value for key, value in values.items() if key in ROOT}
    trainer = known.get("trainer")
    if isinstance(trainer, dict) and trainer.get("compile") is False:  # 63 published configurations have it for null
        known["trainer"] = {**trainer, "compile": None}
    return checked(known, "ignore")


def checked_dataset(values: dict[str, Any]) -> tuple[Any, Path, Path]:
    """Check the data set alone. Return it, data_dir and outputs_dir; the model may be anything."""
    folders = validated(Folders, {name: values[name] for name in Folders.model_fields})
    _check_name(values, "dataset", list(DATASETS))
    dataset = validated(kind_of("dataset", values["dataset"]), values["dataset"], "dataset")
    return dataset, folders.data_dir, folders.outputs_dir


def _section(name: str, values: Any, extra: Extra) -> Written:
    """Check a section whose keys depend on what it chooses."""
    return validated(kind_of(name, values), values, name, extra=extra)


def _check_name(values: dict[str, Any], section: str, known: list[str]) -> None:
    """Refuse an unknown name of the model or of the data set, which decides the keys of its section."""
    keys = values.get(section)
    name = keys.get("name") if isinstance(keys, dict) else None
    if name not in known:
        raise Refused(f"{section}.name={as_typed(name)} is unknown. Available: {listing(known)}.")
