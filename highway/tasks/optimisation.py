"""Optimisers and learning-rate schedules, as the papers' code has them."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from highway.config.schema import Optimizer, Plateau


def build_optimizer(parameters: Iterable[nn.Parameter], config: Optimizer) -> torch.optim.Optimizer:
    """Fused kernels: the same mathematics, one pass over the weights."""
    if config.name == "sgd":
        return torch.optim.SGD(parameters, lr=config.lr, fused=True)
    first, second = config.betas
    return torch.optim.Adam(parameters, lr=config.lr, betas=(first, second), eps=config.epsilon, fused=True)


def rate_at(step: int, config: Optimizer, total_steps: int) -> float:
    """The learning rate of update `step` (from 0) under a schedule that only counts steps.

    cosine                lr * (1 + cos(pi s / total)) / 2
    inverse_square_root   lr * min(s / warm-up, sqrt(warm-up / s)): Vaswani et al. 2017 with its peak named lr
    constant              lr; each of them after a linear warm-up
    """
    if config.schedule == "inverse_square_root":
        count = step + 1
        return config.lr * min(count / config.warmup_steps, math.sqrt(config.warmup_steps / count))
    if step < config.warmup_steps:
        return config.lr * (step + 1) / config.warmup_steps
    if config.schedule == "cosine":
        return config.lr * (1 + math.cos(math.pi * step / total_steps)) / 2
    return config.lr


class PlateauRule:
    """Divide the rate when, after epoch `after_epoch`, the validation loss is above the worst of the last `window`.

    R-Transformer's code: character PTB, loss > max(last 3), lr / 10; word PTB, loss >= max(last 5), lr / 2.
    """

    def __init__(self, config: Plateau, lr: float) -> None:
        self.config = config
        self.lr = lr
        self.losses: list[float] = []

    def update(self, validation_loss: float) -> float:
        """Take the loss of the epoch that just ended; the rate for the next one."""
        epoch = len(self.losses) + 1
        if epoch > self.config.after_epoch and self.losses:
            worst = max(self.losses[-self.config.window :])
            if validation_loss > worst or (not self.config.strict and validation_loss == worst):
                self.lr /= self.config.divide_by
        self.losses.append(validation_loss)
        return self.lr

    def state_dict(self) -> dict[str, Any]:
        return {"lr": self.lr, "losses": self.losses}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.lr, self.losses = state["lr"], list(state["losses"])
