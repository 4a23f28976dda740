"""Optimisers and learning-rate schedules, as the papers' code has them."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from highway.config.training import Optimizer


def build_optimizer(parameters: Iterable[nn.Parameter], config: Optimizer) -> torch.optim.Optimizer:
    """Fused kernels: the same mathematics, one pass over the weights."""
    if config.name == "sgd":
        return torch.optim.SGD(parameters, lr=config.lr, fused=True)
    first, second = config.betas
    return torch.optim.Adam(parameters, lr=config.lr, betas=(first, second), eps=config.epsilon, fused=True)


@torch.no_grad()
def add_decay(parameters: Iterable[nn.Parameter], weight_decay: float) -> None:
    """The gradient of weight_decay / 2 times the sum of squares, before clipping: as if it were part of the loss."""
    if weight_decay:
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.add_(parameter, alpha=weight_decay)


def prepare_gradients(parameters: Iterable[nn.Parameter], config: Optimizer, foreach: bool | None = None) -> None:
    """Add weight decay and clip. foreach: all parameters in one operator; None: as torch does on their device."""
    parameters = list(parameters)
    add_decay(parameters, config.weight_decay)
    if config.clip is not None:
        nn.utils.clip_grad_norm_(parameters, config.clip, foreach=foreach)


class Schedule:
    """The learning rate of every update; the constant one, after a linear warm-up."""

    def __init__(self, config: Optimizer, total_steps: int) -> None:
        self.config, self.total_steps = config, total_steps

    def rate(self, step: int, epoch: int) -> float:
        """Of update `step`, which is in `epoch`, both from 0."""
        if step < self.config.warmup_steps:
            return self.config.lr * (step + 1) / self.config.warmup_steps
        return self.after_warmup(step, epoch)

    def after_warmup(self, step: int, epoch: int) -> float:
        return self.config.lr

    def epoch_ended(self, validation_loss: float) -> None:
        """Called with the loss of every validation that ends an epoch."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class Cosine(Schedule):
    """lr * (1 + cos(pi s / total)) / 2"""

    def after_warmup(self, step: int, epoch: int) -> float:
        return self.config.lr * (1 + math.cos(math.pi * step / self.total_steps)) / 2


class InverseSquareRoot(Schedule):
    """lr * min(s / warm-up, sqrt(warm-up / s)): Vaswani et al. 2017 with its peak named lr"""

    def rate(self, step: int, epoch: int) -> float:
        count, warmup = step + 1, self.config.warmup_steps
        return self.config.lr * min(count / warmup, math.sqrt(warmup / count))


class OnPlateau(Schedule):
    """Divide the rate when, after epoch `after_epoch`, the validation loss is above the worst of the last `window`.

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
    """lr / divide_by ^ ((epochs past - after_epoch) // every_epochs)"""

    def rate(self, step: int, epoch: int) -> float:
        steps = self.config.steps
        return self.config.lr / steps.divide_by ** (max(epoch - steps.after_epoch, 0) // steps.every_epochs)


SCHEDULES: dict[str, type[Schedule]] = {
    "constant": Schedule,
    "cosine": Cosine,
    "inverse_square_root": InverseSquareRoot,
    "plateau": OnPlateau,
    "steps": InSteps,
}


def schedule_of(config: Optimizer, total_steps: int) -> Schedule:
    return SCHEDULES[config.schedule](config, total_steps)
