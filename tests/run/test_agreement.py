"""The comparison of a device with the CPU (tests/run/test_cuda.py) finds wrong numbers, tried on the CPU itself."""

import pytest
import torch

from tests.support import agreement
from tests.support.agreement import BATCHES, BOUNDS, disagreements, row, trace


def test_a_wrong_device_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison finds a bias that is wrong on the device and right on the reference."""
    plain, calls = agreement.build.task, []

    def off_by_a_thousandth(described: object) -> object:
        calls.append(described)
        task = plain(described)
        if BATCHES < len(calls) <= 2 * BATCHES:  # the first trace after the reference
            with torch.no_grad():
                task.model.output_bias += 1e-2 * torch.arange(len(task.model.output_bias))
        return task

    monkeypatch.setattr(agreement.build, "task", off_by_a_thousandth)
    assert list(disagreements(row("highway_t3", "baseline"), "cpu", steps=2)) == ["32"]


def test_a_wrong_gradient_is_found_though_the_loss_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    described = row("highway_t3", "baseline")
    reference = trace(described, "cpu", "32", steps=1)
    plain = agreement.build.task

    def with_a_wrong_gradient(described: object) -> object:
        task = plain(described)
        next(iter(task.weights)).register_hook(lambda gradient: 1.01 * gradient)
        return task

    monkeypatch.setattr(agreement.build, "task", with_a_wrong_gradient)
    apart = trace(described, "cpu", "32", steps=1).apart(reference)
    assert (apart.first_loss, apart.within(BOUNDS["32"])) == (0.0, False)
