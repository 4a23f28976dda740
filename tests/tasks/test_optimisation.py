"""Schedules against the papers' rules, written as their code has them."""

import math
import random

import pytest
import torch

from highway.config.optimisers import SGD, Adam, Optimizer, Plateau, Steps
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
