"""The comparison of a device with the CPU (tests/run/test_cuda.py) finds wrong numbers, tried on the CPU itself."""

import math

import pytest
import torch

from tests.support import agreement
from tests.support.agreement import BATCHES, BOUNDS, Trace, disagreements, rounded, row, trace


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


@pytest.mark.parametrize(("jumps", "apart"), [(0, 0.0), (1, 0.0), (2, 0.5)])
def test_a_gradient_that_jumps_in_one_batch_does_not_count(jumps: int, apart: float) -> None:
    reference = Trace([1.0], [torch.tensor([2.0])] * BATCHES)
    jumped = Trace([1.0], [torch.tensor([3.0])] * jumps + [torch.tensor([2.0])] * (BATCHES - jumps))
    assert jumped.apart(reference).gradient == apart
    nan = Trace([1.0], [torch.tensor([math.nan])] + [torch.tensor([2.0])] * (BATCHES - 1))
    assert not nan.apart(reference).within(BOUNDS["bf16"]), "what is no number always counts"


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


@pytest.mark.slow
def test_a_row_agrees_with_itself_and_rounding_shows() -> None:
    described = row("highway_t3", "tanh")
    reference = trace(described, "cpu", "32", steps=2)
    exact, tf32, bf16 = (trace(described, "cpu", precision, steps=2).apart(reference) for precision in BOUNDS)
    assert (exact.first_loss, exact.gradient, exact.later_loss) == (0.0, 0.0, 0.0)
    assert 0 < tf32.gradient < bf16.gradient


def test_rounding_to_tf32() -> None:
    """Rounding keeps eleven significant bits: 1 + 2^-10 stays, 1 + 2^-12 does not."""
    values = torch.tensor([1 + 2.0**-10, 1 + 2.0**-12, -3.0])
    assert rounded(values).tolist() == [1 + 2.0**-10, 1.0, -3.0]
