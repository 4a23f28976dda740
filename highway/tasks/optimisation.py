"""Optimisers and learning-rate schedules, as in the papers' code."""

import inspect
import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from highway.cards.card import loaded
from highway.cards.optimisers import OPTIMISERS, SCHEDULES, Optimizer, ScheduleOptions
from highway.errors import Refused


def build_optimizer(parameters: Iterable[nn.Parameter], config: Optimizer) -> torch.optim.Optimizer:
    """Build the optimiser, with fused kernels if it has them: they compute the same update in one pass."""
    kind = loaded(OPTIMISERS[config.name].code)
    fused = {"fused": True} if "fused" in inspect.signature(kind).parameters else {}
    return kind(parameters, lr=config.lr, **config.arguments(), **fused)


@torch.no_grad()
def add_decay(parameters: Iterable[nn.Parameter], weight_decay: float) -> None:
    """Add the gradient of an L2 penalty, weight_decay / 2 times the sum of squares; call this before clipping."""
    if weight_decay:
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.add_(parameter, alpha=weight_decay)


def prepare_gradients(parameters: Iterable[nn.Parameter], config: Optimizer) -> None:
    """Add weight decay and clip."""
    parameters = list(parameters)
    add_decay(parameters, config.weight_decay)
    if config.clip is not None:
        nn.utils.clip_grad_norm_(parameters, config.clip)


class Schedule:
    """A learning-rate schedule; this base class is linear warm-up, then a constant rate."""

    def __init__(self, config: Optimizer, total_steps: int) -> None:
        self.config, self.total_steps = config, total_steps

    def rate(self, step: int, epoch: int) -> float:
        """Return the learning rate of update `step` in `epoch`, both counted from 0."""
        if step < self.config.warmup_steps:
            return self.config.lr * (step + 1) / self.config.warmup_steps
        return self.after_warmup(step, epoch)

    def after_warmup(self, step: int, epoch: int) -> float:
        """Return the learning rate of an update after the warm-up."""
        return self.config.lr

    def epoch_ended(self, validation_loss: float) -> None:
        """Receive the loss of each validation at the end of an epoch."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class Cosine(Schedule):
    """Cosine schedule: lr * (1 + cos(pi s / total)) / 2."""

    def after_warmup(self, step: int, epoch: int) -> float:
        return self.config.lr * (1 + math.cos(math.pi * step / self.total_steps)) / 2


class InverseSquareRoot(Schedule):
    """Schedule of Vaswani et al. 2017, scaled to the peak lr: lr * min(s / warm-up, sqrt(warm-up / s))."""

    def rate(self, step: int, epoch: int) -> float:
        count, warmup = step + 1, self.config.warmup_steps
        return self.config.lr * min(count / warmup, math.sqrt(warmup / count))


class OnPlateau(Schedule):
    """Schedule that divides the rate when the validation loss exceeds the worst of the last `window` epochs.

    It starts after epoch `after_epoch`; with strict=false an equal loss counts too.
    R-Transformer's code: character PTB, loss > max(last 3), lr / 10; word PTB, loss >= max(last 5), lr / 2.
    """

    def __init__(self, config: Optimizer, total_steps: int) -> None:
        super().__init__(config, total_steps)
        self.lr = config.lr
        self.losses: list[float] = []

    def rate(self, step: int, epoch: int) -> float:
        return self.lr

    def epoch_ended(self, validation_loss: float) -> None:
        plateau, epoch = self.config.plateau, len(self.losses) + 1
        if epoch > plateau.after_epoch and self.losses:
            worst = max(self.losses[-plateau.window :])
            if validation_loss > worst or (not plateau.strict and validation_loss == worst):
                self.lr /= plateau.divide_by
        self.losses.append(validation_loss)

    def state_dict(self) -> dict[str, Any]:
        return {"lr": self.lr, "losses": self.losses}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.lr, self.losses = state["lr"], list(state["losses"])


class InSteps(Schedule):
    """Step schedule: lr / divide_by ^ (max(epochs past - after_epoch, 0) // every_epochs)."""

    def rate(self, step: int, epoch: int) -> float:
        steps = self.config.steps
        return self.config.lr / steps.divide_by ** (max(epoch - steps.after_epoch, 0) // steps.every_epochs)


class TorchSchedule(Schedule):
    """A schedule of torch, which counts updates. A resumed run counts again from the first."""

    def __init__(self, config: Optimizer, total_steps: int, options: ScheduleOptions) -> None:
        super().__init__(config, total_steps)
        self.options = options

    @cached_property
    def scheduler(self) -> Any:
        optimizer = torch.optim.SGD([torch.zeros(1)], lr=self.config.lr)
        kind = loaded(SCHEDULES[self.options.name].code)
        try:
            return kind(optimizer, **self.options.arguments(self.config.lr, self.total_steps))
        except (ValueError, ZeroDivisionError) as error:
            raise Refused(f"schedule={self.options.name} does not fit {self.total_steps} updates: {error}.") from error

    def rate(self, step: int, epoch: int) -> float:
        while self.scheduler.last_epoch < step:
            self.scheduler.optimizer.step()  # torch warns of a schedule that steps before its optimiser
            self.scheduler.step()
        return float(self.scheduler.optimizer.param_groups[0]["lr"])


DEFAULT = ScheduleOptions()
RECIPES: dict[str, type[Schedule]] = {  # optimizer.schedule -> its class
    "constant": Schedule,
    "cosine": Cosine,
    "inverse_square_root": InverseSquareRoot,
    "plateau": OnPlateau,
    "steps": InSteps,
}


def schedule_of(config: Optimizer, total_steps: int, chosen: ScheduleOptions = DEFAULT) -> Schedule:
    """Build the schedule that the group `schedule` names, or by default `optimizer.schedule`."""
    if chosen.name not in SCHEDULES:
        return RECIPES[config.schedule](config, total_steps)
    kind = loaded(SCHEDULES[chosen.name].code)
    if issubclass(kind, LRScheduler):
        return TorchSchedule(config, total_steps, chosen)
    return kind(config, total_steps, **chosen.arguments(config.lr, total_steps))
