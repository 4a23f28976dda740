"""Language modelling: loss on the scored tail of each window; the state is carried if the recipe says so."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from pytorch_lightning.utilities import move_data_to_device
from torch import Tensor, nn

from highway.cards.models import Remembers
from highway.config.experiment import Experiment
from highway.data.batches import lanes_of
from highway.data.windows import TextBatch
from highway.models.backbone import joined, mapped
from highway.tasks.recurrent_figures import gate_values, gradient_norms
from highway.tasks.task import Learnt, Task


class LanguageModelling(Task):
    """Language modelling with a model that maps (tokens, state) to (features, state)."""

    def __init__(self, model: nn.Module, experiment: Experiment, steps_per_epoch: int, total_steps: int) -> None:
        super().__init__(model, experiment, steps_per_epoch, total_steps)
        self.evaluation_state: Any = None

    def loss_metrics(self, loss: float) -> dict[str, float]:
        return {"loss": loss, self.experiment.metric: shown_as(loss, self.experiment.metric)}

    def tokens(self, batch: TextBatch) -> int:
        return self.experiment.dataset.train.lanes * batch.inputs.shape[1]

    def on_train_start(self) -> None:
        self.states = move_data_to_device(self.states, self.device)  # states from a checkpoint are on the CPU

    def start_epoch(self) -> None:
        self.states = [None] * len(self.states)

    def learn(self, batch: TextBatch) -> Learnt:
        logits, targets, state = self._predictions(batch, self.states[self.part])
        objective = self.loss(logits, targets)
        is_nats = type(self).loss is LanguageModelling.loss and not self.experiment.optimizer.label_smoothing
        mean = objective if is_nats else F.cross_entropy(logits.detach(), targets)  # bpc and ppl: of the symbols
        if self.experiment.dataset.carry_state:
            self.states[self.part] = mapped(Tensor.detach, state)
        # the weight keeps the average over devices and the sum over parts exact when lanes are distributed unevenly
        weight = batch.inputs.shape[0] * self.devices / self.experiment.dataset.train.lanes
        scored = batch.targets.numel()
        steps = batch.targets.shape[1] if self.experiment.dataset.loss == "sum" else 1
        return Learnt(objective * weight * steps, mean * scored, scored)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Compute the mean training loss from logits (N, V) and the right symbols (N).

        A task with another loss overrides it. Curves and evaluations show the nats of the symbols in any case.
        """
        return F.cross_entropy(logits, targets, label_smoothing=self.experiment.optimizer.label_smoothing)

    def _predictions(self, batch: TextBatch, state: Any) -> tuple[Tensor, Tensor, Any]:
        """Return logits (N, V) and symbols (N) of the scored positions, and the state after the window."""
        features, state = self.model(batch.inputs, state, batch.context)
        logits = self.model.logits(features[:, batch.unscored :]).flatten(0, 1).to(self.dtype)
        return logits, batch.targets.flatten(), state

    def start_evaluation(self) -> None:
        super().start_evaluation()
        self.evaluation_state = None

    def score(self, batch: TextBatch) -> None:
        logits, targets, state = self._predictions(batch, self.evaluation_state)
        if self.experiment.dataset.carry_state:
            self.evaluation_state = state
        self.add(nats=F.cross_entropy(logits, targets, reduction="sum"), scored=targets.numel())
        self.measure(logits, targets)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        checkpoint["task"]["state"] = self._of_all_devices(joined(self.states))

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_load_checkpoint(checkpoint)
        lanes, trainer = self.experiment.dataset.train.lanes, self.trainer
        local_lanes = lanes_of(lanes, trainer.global_rank, trainer.world_size)
        for part in range(len(self.states)):
            rows = lanes_of(local_lanes.stop - local_lanes.start, part, len(self.states))
            self.states[part] = mapped(lambda lane: lane[local_lanes][rows], checkpoint["task"]["state"])  # noqa: B023

    def figure_arrays(self, data: Any) -> dict[str, dict[str, Tensor]]:
        """Add, for a model that carries a state, gradient norms and values of state gates over the test text."""
        arrays = super().figure_arrays(data)
        if self.experiment.remembers is Remembers.STATE:
            self.model.eval()
            stream = data.streams.splits["test"]
            arrays["gradient_norms"] = {"state": gradient_norms(self.model, stream)}
            if values := gate_values(self.model, stream):
                arrays["gate_values"] = values
        return arrays

    def _of_all_devices(self, state: Any) -> Any:
        if self.trainer.world_size == 1:
            return state
        states: list[Any] = [None] * self.trainer.world_size
        torch.distributed.all_gather_object(states, mapped(Tensor.cpu, state))
        return joined(states)


def shown_as(loss: float, metric: str) -> float:
    """Convert a loss in nats to bits per character or to perplexity."""
    if metric == "bpc":
        return loss / math.log(2)
    return math.exp(loss) if loss < 700 else math.inf
