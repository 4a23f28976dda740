"""Language modelling: the loss on the scored tail of each window, state carried where the recipe carries it."""

import hashlib
import math
from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from pytorch_lightning.utilities import move_data_to_device
from torch import Tensor, nn

from highway.data.lanes import Batch, lanes_of
from highway.schema import Experiment
from highway.tasks.optimisation import PlateauRule, build_optimizer, rate_at


class LanguageModelling(pl.LightningModule):
    def __init__(self, model: nn.Module, experiment: Experiment, steps_per_epoch: int, total_steps: int) -> None:
        super().__init__()
        self.model: Any = model  # (tokens, state) -> (features, state), and logits(features)
        self.experiment = experiment
        self.steps_per_epoch = steps_per_epoch
        self.total_steps = total_steps
        self.plateau = PlateauRule(experiment.optimizer.plateau, experiment.optimizer.lr)
        self.state: Any = None  # what the model carries from segment to segment in training
        self.evaluation_state: Any = None
        self.evaluated: dict[str, float] = {}  # the last loss of each split, nats a symbol

    # Training

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return build_optimizer(self.model.parameters(), self.experiment.optimizer)

    def on_train_start(self) -> None:
        self.state = move_data_to_device(self.state, self.device)  # a checkpoint's is on the CPU

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Each update draws its dropout from its own seed, so that a resumed run needs no stored RNG state."""
        torch.manual_seed(step_seed(self.experiment.seed, self.global_step, self.global_rank))
        if self.experiment.optimizer.schedule != "plateau":
            self._set_rate(rate_at(self.global_step, self.experiment.optimizer, self.total_steps))
        if self.global_step % self.steps_per_epoch == 0:
            self.state = None

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        total, state = self._loss(batch, self.state, "mean")
        if self.experiment.dataset.carry_state:
            self.state = mapped(Tensor.detach, state)
        share = batch.inputs.shape[0] * self.trainer.world_size / self.experiment.dataset.train.lanes
        return total * share  # 1 on one device; with uneven lanes, the average over devices stays exact

    def configure_gradient_clipping(self, optimizer: torch.optim.Optimizer, *_: Any, **__: Any) -> None:
        """Here, since Lightning refuses to clip for a fused optimiser in bf16, where nothing needs unscaling."""
        if self.experiment.optimizer.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.experiment.optimizer.clip)

    def _loss(self, batch: Batch, state: Any, reduction: str) -> tuple[Tensor, Any]:
        features, state = self.model(batch.inputs, state)
        logits = self.model.logits(features[:, batch.context :])
        loss = F.cross_entropy(logits.flatten(0, 1).to(self.dtype), batch.targets.flatten(), reduction=reduction)
        return loss, state

    def _set_rate(self, rate: float) -> None:
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = rate

    # Evaluation: the sum of all scored symbols' losses over their number, exact for any grouping of windows

    def _start_evaluation(self) -> None:
        self.evaluation_state = None
        self.sums = torch.zeros(2, dtype=torch.float64, device=self.device)

    def _score(self, batch: Batch) -> None:
        total, state = self._loss(batch, self.evaluation_state, "sum")
        if self.experiment.dataset.carry_state:
            self.evaluation_state = state
        self.sums += torch.stack((total.double(), torch.tensor(float(batch.targets.numel())).to(total).double()))

    def _finish_evaluation(self, split: str) -> None:
        total, count = self.trainer.strategy.reduce(self.sums, reduce_op="sum").tolist()
        self.evaluated[split] = total / count

    def on_validation_epoch_start(self) -> None:
        self._start_evaluation()

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self._score(batch)

    def on_validation_epoch_end(self) -> None:
        self._finish_evaluation("valid")
        epoch_ends = self.trainer.state.fn == "fit" and self.global_step % self.steps_per_epoch == 0
        if epoch_ends and self.experiment.optimizer.schedule == "plateau":
            self._set_rate(self.plateau.update(self.evaluated["valid"]))

    def on_test_epoch_start(self) -> None:
        self._start_evaluation()

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        self._score(batch)

    def on_test_epoch_end(self) -> None:
        self._finish_evaluation("test")

    # What a checkpoint holds beyond weights, optimiser and position

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["task"] = {"plateau": self.plateau.state_dict(), "state": self._of_all_devices(self.state)}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.plateau.load_state_dict(checkpoint["task"]["plateau"])
        lanes, trainer = self.experiment.dataset.train.lanes, self.trainer
        own = lanes_of(lanes, trainer.global_rank, trainer.world_size)
        self.state = mapped(lambda tensor: tensor[own] if tensor.ndim else tensor, checkpoint["task"]["state"])

    def _of_all_devices(self, state: Any) -> Any:
        """The state of all lanes: a tensor of it has lanes first, and one without dimensions is the same everywhere."""
        if self.trainer.world_size == 1 or state is None:
            return state
        states: list[Any] = [None] * self.trainer.world_size
        torch.distributed.all_gather_object(states, mapped(Tensor.cpu, state))
        parts = [flattened(one) for one in states]
        joined = iter([torch.cat(part) if part[0].ndim else part[0] for part in zip(*parts, strict=True)])
        return mapped(lambda _: next(joined), state)


def step_seed(seed: int, step: int, rank: int) -> int:
    digest = hashlib.sha256(f"{seed}/{step}/{rank}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def mapped(change: Callable[[Tensor], Tensor], state: Any) -> Any:
    """A state (None, a tensor, or tensors in tuples and lists) with each tensor changed."""
    if state is None:
        return None
    if isinstance(state, Tensor):
        return change(state)
    return type(state)(mapped(change, part) for part in state)


def flattened(state: Any) -> list[Tensor]:
    return [state] if isinstance(state, Tensor) else [tensor for part in state for tensor in flattened(part)]


def shown_as(loss: float, metric: str) -> float:
    """A loss in nats as bits per character or as perplexity."""
    if metric == "bpc":
        return loss / math.log(2)
    return math.exp(loss) if loss < 700 else math.inf
