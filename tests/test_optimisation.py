"""Schedules against the papers' rules, written as their code has them."""

import math
import random

import pytest
import torch

from highway.config.training import Optimizer, Plateau
from highway.tasks.optimisation import PlateauRule, build_optimizer, rate_at


def released_rule(losses: list[float], kind: str) -> list[float]:
    """R-Transformer's training loops: the rate after each epoch."""
    lr, seen, rates = 2.0, [], []  # type: ignore[var-annotated]
    for epoch, loss in enumerate(losses, 1):
        if kind == "character" and epoch > 5 and loss > max(seen[-3:]):
            lr = lr / 10.0
        if kind == "word" and epoch > 5 and loss >= max(seen[-5:]):
            lr = lr / 2.0
        seen.append(loss)
        rates.append(lr)
    return rates


@pytest.mark.parametrize("kind", ["character", "word"])
def test_plateau_rules(kind: str) -> None:
    config = {"character": Plateau(5, 3, 10, True), "word": Plateau(5, 5, 2, False)}[kind]
    randomly = random.Random(1)
    for _ in range(50):
        losses = [round(3 / (epoch + 1) + randomly.choice((0, 0, 0.1, 0.5)), 1) for epoch in range(20)]
        rule = PlateauRule(config, 2.0)
        rates = [rule.update(loss) for loss in losses[:9]]
        resumed = PlateauRule(config, 2.0)
        resumed.load_state_dict(rule.state_dict())
        rates += [resumed.update(loss) for loss in losses[9:]]
        assert rates == released_rule(losses, kind)
        assert kind == "word" or rates[4] == 2.0


def test_cosine_goes_from_lr_to_zero() -> None:
    config = Optimizer(lr=0.5, schedule="cosine")
    scheduler_of_torch = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimizer := torch.optim.SGD([torch.zeros(1)], lr=0.5), T_max=100, eta_min=0.0
    )
    for step in range(100):
        assert rate_at(step, config, 100) == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-12)
        optimizer.step()
        scheduler_of_torch.step()
    assert rate_at(100, config, 100) == pytest.approx(0)


def test_inverse_square_root_is_vaswanis() -> None:
    width, warmup = 256, 4000
    config = Optimizer(lr=(width * warmup) ** -0.5, schedule="inverse_square_root", warmup_steps=warmup)
    for step in (1, 10, 3999, 4000, 4001, 20000):
        expected = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert rate_at(step - 1, config, 10**6) == pytest.approx(expected)


def test_warm_up() -> None:
    config = Optimizer(lr=1.0, schedule="constant", warmup_steps=4)
    assert [rate_at(step, config, 10) for step in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_adam_has_its_configured_constants() -> None:
    group = build_optimizer([torch.zeros(1)], Optimizer("adam", 0.1, [0.8, 0.9], 1e-6)).param_groups[0]  # type: ignore[list-item]
    assert (group["lr"], group["betas"], group["eps"]) == (0.1, (0.8, 0.9), 1e-6)
    assert math.isclose(group["weight_decay"], 0)
