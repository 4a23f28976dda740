"""The sections of a configuration, its other keys, and the models that describe them."""

from collections.abc import Mapping

from highway.config.experiment import Experiment, Layers
from highway.config.gates import GateOptions
from highway.config.keys import Written
from highway.config.models import MODELS, ModelCard
from highway.config.tasks import TASKS, TaskCard
from highway.config.training import Debug, Logger, Optimizer, Trainer

SECTIONS: dict[str, type[Written]] = {  # the sections whose keys never depend on the model or the data set
    "gate": GateOptions,
    "layers": Layers,
    "optimizer": Optimizer,
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


CARDS: dict[str, Mapping[str, ModelCard | TaskCard]] = {"model": MODELS, "dataset": TASKS}


def kinds_of(section: str) -> list[type[Written]]:
    """Return the models that may describe a section; `model` and `dataset` have several."""
    of_cards = [card.options for card in CARDS.get(section, {}).values()]
    return of_cards + [kind for name, kind in SECTIONS.items() if name == section]


def kinds_with(section: str, key: str) -> list[str]:
    """Return the names of the models, or of the tasks of data sets, that have a key."""
    return [name for name, card in CARDS.get(section, {}).items() if key in card.options.model_fields]
