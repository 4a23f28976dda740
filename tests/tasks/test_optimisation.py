"""Schedules against the papers' rules, written as their code has them."""

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from highway.cards.optimisers import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    AdamW,
    CosineRestarts,
    Exponential,
    Linear,
    MultiStep,
    NAdam,
    OneCycle,
    Optimizer,
    Plateau,
    Polynomial,
    RMSprop,
    ScheduleOptions,
    Steps,
)
from highway.errors import Refused
from highway.tasks.optimisation import Schedule, add_decay, build_optimizer, schedule_of


def released_rule(losses: list[float], kind: str) -> list[float]:
    """Return the rate after each epoch, by the rule of R-Transformer's training loops."""
    lr, seen, rates = 2.0, [], []  # type: ignore[var-annotated]
    for epoch, loss in enumerate(losses, 1):
        if kind == "character" and epoch > 5 and loss > max(seen[-3:]):
            lr = lr / 10.0
        if kind == "word" and epoch > 5 and loss >= max(seen[-5:]):
            lr = lr / 2.0
        seen.append(loss)
        rates.append(lr)
    return rates


def after(rule: Schedule, loss: float) -> float:
    """Return the rate after an epoch that ends with this validation loss; the step does not matter."""
    rule.epoch_ended(loss)
    return rule.rate(10**6, 10**3)


@pytest.mark.parametrize("kind", ["character", "word"])
def test_plateau_rules(kind: str) -> None:
    config = {
        "character": Plateau(after_epoch=5, window=3, divide_by=10, strict=True),
        "word": Plateau(after_epoch=5, window=5, divide_by=2, strict=False),
    }[kind]
    randomly = random.Random(1)
    for _ in range(50):
        losses = [round(3 / (epoch + 1) + randomly.choice((0, 0, 0.1, 0.5)), 1) for epoch in range(20)]
        rule = schedule_of(Optimizer(lr=2.0, schedule="plateau", plateau=config), 100)
        rates = [after(rule, loss) for loss in losses[:9]]
        resumed = schedule_of(Optimizer(lr=2.0, schedule="plateau", plateau=config), 100)
        resumed.load_state_dict(rule.state_dict())
        rates += [after(resumed, loss) for loss in losses[9:]]
        assert rates == released_rule(losses, kind)
        assert kind == "word" or rates[4] == 2.0


def test_a_plateau_counts_epochs_and_looks_back_so_far() -> None:
    """The rate falls from the sixth epoch on, and the loss is compared with the worst of the last three alone."""
    rule = schedule_of(
        Optimizer(lr=1.0, schedule="plateau", plateau=Plateau(after_epoch=5, window=3, divide_by=2, strict=True)), 100
    )
    assert [after(rule, loss) for loss in (1, 2, 3, 4, 5, 6, 7)] == [1, 1, 1, 1, 1, 0.5, 0.25]
    rule = schedule_of(
        Optimizer(lr=1.0, schedule="plateau", plateau=Plateau(after_epoch=0, window=3, divide_by=2, strict=True)), 100
    )
    assert [after(rule, loss) for loss in (9, 3, 2, 1, 3.5, 3.5, 3.4)] == [1, 1, 1, 1, 0.5, 0.5, 0.5]


def test_the_rate_falls_after_every_ten_epochs() -> None:
    """R-Transformer's rate for pixel MNIST is divided by 10 after epochs 10, 20, ..."""
    lr, expected = 1e-3, []
    for epoch in range(1, 31):
        expected.append(lr)
        if epoch % 10 == 0:
            lr /= 10
    rule = schedule_of(Optimizer(lr=1e-3, schedule="steps", steps=Steps(every_epochs=10, divide_by=10)), 30 * 7)
    assert [rule.rate(7 * epoch + 6, epoch) for epoch in range(30)] == pytest.approx(expected)


def test_steps_after_an_epoch_are_those_of_recurrent_highway_networks() -> None:
    """The rate is lr_e = 0.2 / 1.02^max(e - 19, 0) for e = 0, 1, ...: the first decay is in the 21st epoch."""
    config = Optimizer(lr=0.2, schedule="steps", steps=Steps(every_epochs=1, divide_by=1.02, after_epoch=19))
    rates = [schedule_of(config, 1).rate(7 * epoch, epoch) for epoch in range(40)]
    assert rates == pytest.approx([0.2 / 1.02 ** max(epoch - 19, 0) for epoch in range(40)])
    assert rates[19] == 0.2 > rates[20]


def test_cosine_goes_from_lr_to_zero() -> None:
    config = Optimizer(lr=0.5, schedule="cosine")
    scheduler_of_torch = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimizer := torch.optim.SGD([torch.zeros(1)], lr=0.5), T_max=100, eta_min=0.0
    )
    for step in range(100):
        assert schedule_of(config, 100).rate(step, 0) == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-12)
        optimizer.step()
        scheduler_of_torch.step()
    assert schedule_of(config, 100).rate(100, 0) == pytest.approx(0)


def test_inverse_square_root_is_vaswanis() -> None:
    width, warmup = 256, 4000
    config = Optimizer(lr=(width * warmup) ** -0.5, schedule="inverse_square_root", warmup_steps=warmup)
    for step in (1, 10, 3999, 4000, 4001, 20000):
        expected = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert schedule_of(config, 10**6).rate(step - 1, 0) == pytest.approx(expected)


def test_warm_up() -> None:
    config = Optimizer(lr=1.0, schedule="constant", warmup_steps=4)
    assert [schedule_of(config, 10).rate(step, 0) for step in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    cosine = schedule_of(Optimizer(lr=1.0, schedule="cosine", warmup_steps=4), 10)
    rates = [cosine.rate(step, 0) for step in range(6)]
    assert rates == pytest.approx([0.25, 0.5, 0.75, 1.0, *((1 + math.cos(math.pi * s / 10)) / 2 for s in (4, 5))])


def test_adam_has_its_configured_constants() -> None:
    config = Adam(name="adam", lr=0.1, betas=[0.8, 0.9], epsilon=1e-6)
    group = build_optimizer([torch.zeros(1)], config).param_groups[0]  # type: ignore[list-item]
    assert (group["lr"], group["betas"], group["eps"]) == (0.1, (0.8, 0.9), 1e-6)
    assert math.isclose(group["weight_decay"], 0)


def test_adam_of_a_recipe_and_its_clipping() -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    for options, kind in ((SGD(lr=0.5), torch.optim.SGD), (Adam(name="adam", lr=0.5), torch.optim.Adam)):
        made = build_optimizer([weight], options)
        assert isinstance(made, kind) and made.param_groups[0]["lr"] == 0.5
        assert made.param_groups[0]["fused"] is True, "one pass over the weights"


def test_weight_decay_is_part_of_the_loss() -> None:
    """The gradient is that of the loss with weight_decay / 2 times the sum of squares, as autograd computes it."""
    torch.manual_seed(0)
    plain, decayed = (torch.nn.Linear(3, 2) for _ in range(2))
    decayed.load_state_dict(plain.state_dict())
    x = torch.randn(5, 3)
    plain(x).square().sum().backward()
    add_decay(plain.parameters(), 0.3)
    squares = sum(parameter.square().sum() for parameter in decayed.parameters())
    (decayed(x).square().sum() + 0.3 / 2 * squares).backward()
    for parameter, other in zip(plain.parameters(), decayed.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, other.grad)


Numbers = dict[str, float]


def adamw(g: float, w: float, s: Numbers, t: int) -> float:
    s["m"] = 0.8 * s["m"] + 0.2 * g
    s["v"] = 0.9 * s["v"] + 0.1 * g * g
    return (1 - 0.1 * 0.3) * w - 0.1 * s["m"] / (1 - 0.8**t) / (math.sqrt(s["v"] / (1 - 0.9**t)) + 1e-3)


def momentum(g: float, w: float, s: Numbers, t: int) -> float:
    s["m"] = 0.8 * s["m"] + g
    return w - 0.1 * s["m"]


def adamax(g: float, w: float, s: Numbers, t: int) -> float:
    s["m"] = 0.8 * s["m"] + 0.2 * g
    s["v"] = max(0.9 * s["v"], abs(g) + 1e-3)
    return w - 0.1 * s["m"] / (1 - 0.8**t) / s["v"]


def adagrad(g: float, w: float, s: Numbers, t: int) -> float:
    s["v"] = (s["v"] or 0.5) + g * g
    return w - 0.1 / (1 + (t - 1) * 0.3) * g / (math.sqrt(s["v"]) + 1e-3)


def adadelta(g: float, w: float, s: Numbers, t: int) -> float:
    s["v"] = 0.8 * s["v"] + 0.2 * g * g
    step = g * math.sqrt(s["m"] + 1e-3) / math.sqrt(s["v"] + 1e-3)
    s["m"] = 0.8 * s["m"] + 0.2 * step * step
    return w - 0.1 * step


def rmsprop(g: float, w: float, s: Numbers, t: int) -> float:
    s["v"] = 0.8 * s["v"] + 0.2 * g * g
    return w - 0.1 * g / (math.sqrt(s["v"]) + 1e-3)


def nadam(g: float, w: float, s: Numbers, t: int) -> float:
    now, then = (0.8 * (1 - 0.5 * 0.96 ** (step * 0.3)) for step in (t, t + 1))
    s["product"] = (s["product"] or 1.0) * now
    s["m"] = 0.8 * s["m"] + 0.2 * g
    s["v"] = 0.9 * s["v"] + 0.1 * g * g
    ahead = then * s["m"] / (1 - s["product"] * then) + (1 - now) * g / (1 - s["product"])
    return w - 0.1 * ahead / (math.sqrt(s["v"] / (1 - 0.9**t)) + 1e-3)


def radam(g: float, w: float, s: Numbers, t: int) -> float:
    s["m"] = 0.8 * s["m"] + 0.2 * g
    s["v"] = 0.9 * s["v"] + 0.1 * g * g
    longest = 2 / (1 - 0.9) - 1
    length = longest - 2 * t * 0.9**t / (1 - 0.9**t)
    step = s["m"] / (1 - 0.8**t)
    if length > 5:
        r = math.sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length))
        step *= r * math.sqrt(1 - 0.9**t) / (math.sqrt(s["v"]) + 1e-3)
    return w - 0.1 * step


TWO: dict[str, Any] = {"lr": 0.1, "betas": [0.8, 0.9], "epsilon": 1e-3}


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (AdamW(name="adamw", **TWO, decoupled_decay=0.3), adamw),
        (SGD(lr=0.1, momentum=0.8), momentum),
        (Adam(name="adamax", **TWO), adamax),
        (Adagrad(name="adagrad", lr=0.1, lr_decay=0.3, initial_accumulator_value=0.5, epsilon=1e-3), adagrad),
        (Adadelta(name="adadelta", lr=0.1, rho=0.8, epsilon=1e-3), adadelta),
        (RMSprop(name="rmsprop", lr=0.1, alpha=0.8, epsilon=1e-3), rmsprop),
        (NAdam(name="nadam", **TWO, momentum_decay=0.3), nadam),
        (Adam(name="radam", **TWO), radam),
    ],
)
def test_an_optimiser_moves_a_weight_by_its_rule(options: Optimizer, rule: Callable[..., float]) -> None:
    weight = torch.nn.Parameter(torch.tensor([1.5], dtype=torch.float64))
    made, expected, state = build_optimizer([weight], options), 1.5, {"m": 0.0, "v": 0.0, "product": 0.0}
    for step in range(1, 12):
        gradient = math.cos(2 * step) * (1 + step % 3)
        weight.grad = torch.tensor([gradient], dtype=torch.float64)
        made.step()
        expected = rule(gradient, expected, state, step)
        assert weight.item() == pytest.approx(expected, rel=1e-7)  # NAdam multiplies in single precision


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (Exponential(name="exponential", gamma=0.9), lambda s: 0.9**s),
        (Linear(name="linear", end_factor=0.2), lambda s: 1 - 0.8 * s / 39),
        (Polynomial(name="polynomial", power=2.0), lambda s: (1 - s / 39) ** 2),
        (CosineRestarts(name="cosine_restarts", period=10), lambda s: (1 + math.cos(math.pi * (s % 10) / 10)) / 2),
        (
            CosineRestarts(name="cosine_restarts", period=15, factor=2, lowest=0.4),
            lambda s: 0.2 + 0.8 * (1 + math.cos(math.pi * (s / 15 if s < 15 else (s - 15) / 30))) / 2,
        ),
        (MultiStep(name="multi_step", milestones=[5, 9], gamma=0.5), lambda s: 0.5 ** ((s >= 5) + (s >= 9))),
        (
            OneCycle(name="one_cycle", pct_start=0.25, div_factor=5.0, final_div_factor=100.0),
            lambda s: 0.6 - 0.4 * math.cos(math.pi * s / 9) if s <= 9 else cycle_down(s),
        ),
    ],
)
def test_a_schedule_of_torch_follows_its_rule(options: ScheduleOptions, rule: Callable[[int], float]) -> None:
    config = Optimizer(lr=2.0)
    schedule = schedule_of(config, 40, options)
    assert [schedule.rate(step, 0) for step in range(40)] == pytest.approx([2 * rule(step) for step in range(40)])
    assert schedule_of(config, 40, options).rate(17, 0) == pytest.approx(2 * rule(17)), "a resumed run"


def cycle_down(step: int) -> float:
    """Return the factor in the falling part of one cycle: a cosine from 1 at update 9 to 1 / 500 at update 39."""
    return 0.002 + 0.998 * (1 + math.cos(math.pi * (step - 9) / 30)) / 2


def test_a_schedule_that_does_not_fit_is_refused_at_its_first_update() -> None:
    schedule = schedule_of(Optimizer(lr=2.0), 10, OneCycle(name="one_cycle", pct_start=0.1))
    with pytest.raises(Refused, match="schedule=one_cycle does not fit 10 updates"):
        schedule.rate(0, 0)
