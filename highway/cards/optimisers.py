"""The keys of the groups optimizer and schedule, and the cards of all optimisers and of torch's schedules.

`optimizer.weight_decay` is a penalty: it adds to the loss, whatever the optimiser. AdamW's decoupled decay is another
key. The code of an optimiser's card is called as torch's classes are: with the parameters, lr, and the options that the
card adds, by name. That of a schedule is a class of torch's, or a `Schedule` (highway/tasks/optimisation.py).
"""

from typing import Any

from highway.cards.card import Card, Cards
from highway.errors import Refused
from highway.keys.schema import Written, added, choice, key, number, part


class Plateau(Written):
    """A schedule that divides lr when the validation loss exceeds the worst of the last `window` losses.

    It begins after epoch `after_epoch`.
    """

    after_epoch: int = number(5, 0, description="the rate is divided after no epoch up to this one")
    window: int = number(3, 1, description="earlier validation losses that are compared; the worst counts")
    divide_by: float = number(10.0, 1, description="divisor of the rate")
    strict: bool = key(True, "true: only if above the worst; false: also if equal")


class Steps(Written):
    """A schedule that divides lr every `every_epochs` epochs."""

    every_epochs: int = number(10, 1, description="epochs from one division to the next")
    divide_by: float = number(10.0, 1, description="divisor of the rate")
    after_epoch: int = number(0, 0, description="epochs before the schedule starts")


SCHEDULE_KEYS = ("schedule", "warmup_steps", "plateau", "steps")  # keys that the group `schedule` replaces


class Optimizer(Written):
    """The keys of every optimiser."""

    name: str = key("sgd", options=lambda: tuple(OPTIMISERS))
    lr: float = number(1.0, 0, description="learning rate")
    clip: float | None = number(None, 0, description="largest L2 norm of the gradient; null: none")
    weight_decay: float = number(
        0.0, 0, description="adds (this / 2) * the sum of all squared weights to the loss; AdamW's is decoupled_decay"
    )
    schedule: str = choice(
        *("constant", "plateau", "cosine", "inverse_square_root", "steps"),
        description="of the learning rate; the group `schedule` has others",
    )
    warmup_steps: int = number(
        0,
        0,
        description="steps in which the rate rises to lr",
        read_when={"schedule": ("constant", "cosine", "inverse_square_root")},
    )
    label_smoothing: float = number(0.0, 0, 0.999, description="label smoothing of the training loss")
    plateau: Plateau = part(Plateau, "divide the rate when validation gets worse", read_when={"schedule": ("plateau",)})
    steps: Steps = part(Steps, "divide the rate every few epochs", read_when={"schedule": ("steps",)})

    def check(self) -> None:
        if self.schedule == "inverse_square_root" and self.warmup_steps == 0:
            raise Refused("optimizer.schedule=inverse_square_root needs optimizer.warmup_steps=1 or more.")

    def without_schedule(self) -> "Optimizer":
        """Return these keys with those of the schedule at their defaults: the group `schedule` has replaced it."""
        neutral = type(self)()
        return self.model_copy(update={key: getattr(neutral, key) for key in SCHEDULE_KEYS})

    def arguments(self) -> dict[str, Any]:
        """Return what the code takes beside the parameters and lr: the options that a card adds, by name."""
        return added(self, Optimizer)


class TorchOptimizer(Optimizer):
    """The keys of an optimiser of torch, two of which have other names there."""

    def arguments(self) -> dict[str, Any]:
        names = {"epsilon": "eps", "decoupled_decay": "weight_decay"}
        return {names.get(name, name): value for name, value in super().arguments().items()}


class SGD(Optimizer):
    momentum: float = number(0.0, 0, 0.99999, description="decay of the running sum of gradients; 0: none")
    nesterov: bool = key(False, "Nesterov's momentum")

    def check(self) -> None:
        super().check()
        if self.nesterov and not self.momentum:
            raise Refused("optimizer.nesterov=true needs optimizer.momentum above 0.")


class Adam(TorchOptimizer):
    betas: list[float] = key([0.9, 0.999], "decays of Adam's two averages")
    epsilon: float = number(1e-8, 0, description="added to the denominator")

    def check(self) -> None:
        super().check()
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise Refused(f"optimizer.betas takes two numbers in [0, 1), as in [0.9,0.98]; it is {list(self.betas)}.")


class AdamW(Adam):
    decoupled_decay: float = number(0.01, 0, description="lr times this share of each weight is taken off the weight")


class NAdam(Adam):
    momentum_decay: float = number(0.004, 0, description="decay of the first average's weight from step to step")


class Adagrad(TorchOptimizer):
    lr_decay: float = number(0.0, 0, description="step s divides lr by 1 + s times this")
    initial_accumulator_value: float = number(0.0, 0, description="start of the sum of squared gradients")
    epsilon: float = number(1e-10, 0, description="added to the denominator")


class Adadelta(TorchOptimizer):
    rho: float = number(0.9, 0, 1, description="decay of the averages of squared gradients and squared steps")
    epsilon: float = number(1e-6, 0, description="added under both roots")


class RMSprop(TorchOptimizer):
    alpha: float = number(0.99, 0, 1, description="decay of the average of squared gradients")
    momentum: float = number(0.0, 0, 0.99999, description="decay of the running sum of steps; 0: none")
    centered: bool = key(False, "true: subtract the squared average gradient, so that a variance is divided by")
    epsilon: float = number(1e-8, 0, description="added to the denominator")


OPTIMISERS: Cards[Card] = Cards(
    "optimiser",
    {
        "sgd": Card(
            "torch.optim:SGD",
            "w - lr * v,  v = momentum * v + g",
            "Stochastic gradient descent: each weight moves against its gradient g.",
            SGD,
        ),
        "adam": Card(
            "torch.optim:Adam",
            "w - lr * m / (sqrt(s) + epsilon),  m and s: averages of g and g^2, corrected for their start at 0",
            "Each weight's step is the average gradient in units of its usual size.",
            Adam,
        ),
        "adamw": Card(
            "torch.optim:AdamW",
            "(1 - lr * decay) * w - lr * m / (sqrt(s) + epsilon),  m and s as in adam",
            "Adam whose weight decay is decoupled: it shrinks the weights beside the step, and not through the loss.",
            AdamW,
        ),
        "nadam": Card(
            "torch.optim:NAdam",
            "w - lr * (mu' m + (1 - mu) g) / (sqrt(s) + epsilon),  m and s as in adam",
            "Adam with Nesterov's momentum: the step looks ahead along the average gradient.",
            NAdam,
        ),
        "radam": Card(
            "torch.optim:RAdam",
            "w - lr * r * m / (sqrt(s) + epsilon),  m and s as in adam, r from the number of steps",
            "Adam whose first steps are smaller, or not scaled, as long as s rests on too few gradients.",
            Adam,
        ),
        "adamax": Card(
            "torch.optim:Adamax",
            "w - lr * m / u,  u = max(beta2 * u, |g| + epsilon),  m as in adam",
            "Adam with the largest recent gradient in place of the root of the average square.",
            Adam,
        ),
        "adagrad": Card(
            "torch.optim:Adagrad",
            "w - lr * g / (sqrt(s) + epsilon),  s = s + g^2",
            "Each weight's rate falls with all the gradients that it has had.",
            Adagrad,
        ),
        "adadelta": Card(
            "torch.optim:Adadelta",
            "w - lr * g * sqrt(d + epsilon) / sqrt(s + epsilon),  s and d: averages of g^2 and of squared steps",
            "A step in the units of the weight: the ratio of the usual step to the usual gradient scales it.",
            Adadelta,
        ),
        "rmsprop": Card(
            "torch.optim:RMSprop",
            "w - lr * g / (sqrt(s) + epsilon),  s = alpha * s + (1 - alpha) * g^2",
            "Each weight's gradient is divided by its usual size.",
            RMSprop,
        ),
    },
)


class ScheduleOptions(Written):
    """The keys of every schedule of the group `schedule`."""

    name: str = key("default", "default: optimizer.schedule decides", options=lambda: ("default", *SCHEDULES))

    def arguments(self, lr: float, steps: int) -> dict[str, Any]:
        """Return what the schedule's code takes beside an optimiser: the options that a card adds, by name.

        lr: the rate of the recipe, with which the optimiser starts.   steps: updates of the whole run.
        """
        return added(self, ScheduleOptions)


class Exponential(ScheduleOptions):
    gamma: float = number(0.9999, 1e-9, 1, description="factor of the rate at each update")


class Linear(ScheduleOptions):
    end_factor: float = number(1e-9, 0, 1, description="share of lr that is left at the last update")

    def arguments(self, lr: float, steps: int) -> dict[str, Any]:
        return {"start_factor": 1.0, "total_iters": max(steps - 1, 1), **super().arguments(lr, steps)}


class Polynomial(ScheduleOptions):
    power: float = number(1.0, 0, 100, description="exponent of the share of updates that are left")

    def arguments(self, lr: float, steps: int) -> dict[str, Any]:
        return {"total_iters": max(steps - 1, 1), **super().arguments(lr, steps)}


class OneCycle(ScheduleOptions):
    pct_start: float = number(0.3, 0, 1, description="share of the updates in which the rate rises to lr")
    div_factor: float = number(25.0, 1, description="lr divided by this is the first rate")
    final_div_factor: float = number(1e4, 1, description="the first rate divided by this is the last one")

    def arguments(self, lr: float, steps: int) -> dict[str, Any]:
        return {"max_lr": lr, "total_steps": steps, "cycle_momentum": False, **super().arguments(lr, steps)}


class CosineRestarts(ScheduleOptions):
    period: int = number(1000, 1, description="updates to the first restart")
    factor: int = number(1, 1, 1000, description="each period is this many times as long as the one before")
    lowest: float = number(0.0, 0, description="rate at the end of a period")

    def arguments(self, lr: float, steps: int) -> dict[str, Any]:
        return {"T_0": self.period, "T_mult": self.factor, "eta_min": self.lowest}


class MultiStep(ScheduleOptions):
    milestones: list[int] = key([1000], "updates after which the rate is multiplied by gamma")
    gamma: float = number(0.1, 1e-9, 1, description="factor of the rate at each milestone")

    def check(self) -> None:
        if sorted(set(self.milestones)) != self.milestones or min(self.milestones, default=0) < 1:
            raise Refused(f"schedule.milestones={self.milestones} must be ascending updates, as in [1000,2000].")


SCHEDULES: Cards[Card] = Cards(
    "schedule",
    {
        "exponential": Card(
            "torch.optim.lr_scheduler:ExponentialLR",
            "lr * gamma^s",
            "Every update s multiplies the rate by one factor.",
            Exponential,
        ),
        "linear": Card(
            "torch.optim.lr_scheduler:LinearLR",
            "lr * (1 - (1 - end_factor) * s / (steps - 1))",
            "The rate falls along a line, to a share of lr at the last update.",
            Linear,
        ),
        "polynomial": Card(
            "torch.optim.lr_scheduler:PolynomialLR",
            "lr * (1 - s / (steps - 1))^power",
            "The rate falls to zero at the last update, the faster at first the larger the power.",
            Polynomial,
        ),
        "one_cycle": Card(
            "torch.optim.lr_scheduler:OneCycleLR",
            "a cosine from lr / div_factor up to lr, then a cosine down to nearly 0",
            "The rate rises to lr and then falls over the rest of the run.",
            OneCycle,
        ),
        "cosine_restarts": Card(
            "torch.optim.lr_scheduler:CosineAnnealingWarmRestarts",
            "lowest + (lr - lowest) * (1 + cos(pi t / period)) / 2,  t: updates since the last restart",
            "The rate falls along a cosine, and starts again at lr after each period.",
            CosineRestarts,
        ),
        "multi_step": Card(
            "torch.optim.lr_scheduler:MultiStepLR",
            "lr * gamma^(milestones up to update s)",
            "The rate is multiplied by a factor at each of the named updates.",
            MultiStep,
        ),
    },
)
