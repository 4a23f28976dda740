"""One of each kind that a project may add: a loss, an optimiser, a schedule, a callback, an option of a gate."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from highway.cards.callbacks import CallbackOptions
from highway.cards.card import Card
from highway.cards.gates import GateCard, GateOptions, StateGateOptions
from highway.cards.optimisers import Optimizer, ScheduleOptions
from highway.cards.tasks import TASKS, TaskOptions
from highway.gates.gate import Gate
from highway.keys.schema import number
from highway.tasks.language import LanguageModelling
from highway.tasks.optimisation import Schedule


class ConfidentOptions(TaskOptions):
    strength: float = number(0.1, 0, description="weight of the entropy of the predictions")


class Confident(LanguageModelling):
    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        entropy = -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1).mean()
        return super().loss(logits, targets) - self.experiment.task.strength * entropy


class SignOptions(Optimizer):
    name: str = "sign"  # a default of its own, as a model has it
    decay: float = number(0.5, 0, 1, description="decay of the average gradient")
    epsilon: float = number(0.0, 0, description="gradients up to this are no direction")


class Sign(torch.optim.Optimizer):
    """w - lr * sign(m),  m = decay * m + (1 - decay) * g"""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, decay: float, epsilon: float) -> None:
        super().__init__(parameters, {"lr": lr, "decay": decay, "epsilon": epsilon})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            for weight in group["params"]:
                state = self.state[weight]
                average = state.setdefault("average", torch.zeros_like(weight))
                average.lerp_(weight.grad, 1 - group["decay"])
                weight.sub_(average.sign() * (average.abs() > group["epsilon"]), alpha=group["lr"])
        return loss


class HalvingOptions(ScheduleOptions):
    every: int = number(2, 1, description="updates from one halving to the next")


class Halving(Schedule):
    def __init__(self, config: Optimizer, total_steps: int, every: int) -> None:
        super().__init__(config, total_steps)
        self.every = every

    def after_warmup(self, step: int, epoch: int) -> float:
        return self.config.lr / 2 ** (step // self.every)


class PullOptions(CallbackOptions):
    share: float = number(0.1, 0, 1, description="share of the way back to the average of all weights so far")


class Pull(pl.Callback):
    """After each update, pull the weights towards their average so far, which is a state of the run."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.average: dict[str, Tensor] = {}
        self.updates = 0

    @torch.no_grad()
    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        self.updates += 1
        for name, weight in pl_module.model.named_parameters():  # type: ignore[union-attr, operator]
            average = self.average.setdefault(name, torch.zeros_like(weight))
            average.lerp_(weight, 1 / self.updates)
            weight.lerp_(average, self.share)

    def state_dict(self) -> dict[str, Any]:
        return {"average": self.average, "updates": self.updates}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.average, self.updates = state_dict["average"], state_dict["updates"]


class ShareOptions(GateOptions):
    share: float = number(0.5, 0, 1, description="factor of the sublayer's output")


class Share(Gate):
    def __init__(self, width: int, options: ShareOptions) -> None:
        super().__init__()
        self.share = options.share

    def forward(self, x: Tensor, fx: Tensor, reads: Tensor) -> Tensor:
        return x + self.share * fx


class LeakyOptions(StateGateOptions):
    start: float = number(2.0, -10, 10, description="the leak before training")


HERE = "tests.guests.kinds"
CONFIDENT = replace(
    TASKS["language"],
    code=f"{HERE}:Confident",
    equation="-log p(x[t+1] | x[1..t]) - strength * H(p)",
    description="Predict each next symbol, and pay for confidence.",
    options=ConfidentOptions,
)
SIGN = Card(f"{HERE}:Sign", "w - lr * sign(m)", "A step of one size for every weight.", SignOptions)
HALVING = Card(f"{HERE}:Halving", "lr / 2^(s // every)", "The rate is halved every few updates.", HalvingOptions)
PULL = Card(f"{HERE}:Pull", "", "Weights are pulled towards their average.", PullOptions)
SHARE = GateCard(f"{HERE}:Share", "x + share * f(x)", "A fixed share of the output.", options=ShareOptions)
LEAKY = GateCard("tests.guests.leaky:Leaky", "s[t] = previous + sigmoid(a) * (new - previous)", "A leak.", LeakyOptions)
