"""One run, checked: what `highway.train.run` needs, and nothing that Hydra left behind."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from highway.config import layers
from highway.config.datasets import DATASETS, DatasetCard
from highway.config.fields import key
from highway.config.gates import GATES, GateOptions
from highway.config.models import MODELS, ModelCard, Remembers
from highway.config.tasks import TASKS, TaskCard
from highway.config.training import Debug, Logger, Optimizer, Trainer


@dataclass
class Layers:
    attention: Any = key("none", "all, none, l1-3 or [1,3]: which attention sublayers have a gate, counted from 1")
    feed_forward: Any = key("none", "the same for the feed-forward sublayers")
    as_released: bool = key(False, "only the layers before the first gap, as the released Transformer-XL code has it")


@dataclass(frozen=True)
class Gating:
    """Which gates a backbone has, and on which of its layers (from 1)."""

    options: GateOptions
    layers: dict[str, tuple[int, ...]]  # place -> gated layers

    def residual(self, layer: int, place: str | None) -> str:
        """The residual gate of one sublayer; one without a place has none."""
        return self.options.residual if place is not None and layer in self.layers[place] else "none"


@dataclass
class Experiment:
    model: Any  # options of its card, as the dataset's are
    gate: GateOptions
    layers: Layers
    dataset: Any
    optimizer: Optimizer
    trainer: Trainer
    logger: Logger
    debug: Debug
    budget: str
    seed: int
    data_dir: Path
    outputs_dir: Path

    @property
    def model_card(self) -> ModelCard:
        return MODELS[self.model.name]

    @property
    def dataset_card(self) -> DatasetCard:
        return DATASETS[self.dataset.name]

    @property
    def task_card(self) -> TaskCard:
        return TASKS[self.task]

    @property
    def task(self) -> str:
        return self.dataset_card.task

    @property
    def metric(self) -> str:
        """What is shown beside the loss."""
        return self.dataset.metric

    @property
    def remembers(self) -> Remembers:
        return self.model_card.remembers

    @property
    def gating(self) -> Gating:
        places = self.model_card.places.get("residual", ())
        return Gating(self.gate, {place: self._gated(place) for place in places})

    def _gated(self, place: str) -> tuple[int, ...]:
        if self.gate.residual == "none":
            return ()
        chosen = layers.selected(getattr(self.layers, place), self.model.layers, f"layers.{place}")
        if self.layers.as_released:
            return tuple(layer for number, layer in enumerate(chosen, start=1) if layer == number)
        return chosen

    def revisions(self) -> dict[str, int]:
        """Of everything that has one; the residual gate's is called `gate`."""
        gates = {interface: GATES[interface][name].revision for interface, name in self.gate.chosen().items()}
        return {
            "model": self.model_card.revision,
            "gate": gates.pop("residual"),
            **gates,
            "dataset": self.dataset_card.revision,
            "task": self.task_card.revision,
        }
