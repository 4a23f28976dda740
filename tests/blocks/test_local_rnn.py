"""LocalRNN against windows through torch.nn's recurrent networks, and the arrays that it avoids."""

from typing import Any

import pytest
import torch
from swapped import GatheredWindows
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from highway.blocks import local_rnn
from highway.blocks.local_rnn import LocalRNN


def pair(cell: str, width: int, window: int, dtype: torch.dtype = torch.float32) -> tuple[LocalRNN, GatheredWindows]:
    torch.manual_seed(width)
    local = LocalRNN(width, cell, window).to(dtype)
    for parameter in local.parameters():
        nn.init.uniform_(parameter, -0.4, 0.4)
    return local, GatheredWindows(local)


def gradients(module: nn.Module, x: Tensor, weights: Tensor, bf16: bool = False) -> tuple[Tensor, list[Tensor]]:
    x = x.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        output = module(x)
    (output * weights).sum().backward()
    assert x.grad is not None
    return output.detach(), [x.grad, *(parameter.grad for parameter in module.parameters())]  # type: ignore[list-item]


@pytest.mark.parametrize("chunk", [1 << 18, 9 * 5])  # all windows at once, and five at a time
@pytest.mark.parametrize("window", [1, 4, 30])  # the last is longer than the text
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_equals_windows_through_torchs_own(cell: str, window: int, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_rnn, "CHUNK", chunk)
    for dtype, close in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        ours, torchs = pair(cell, 9, window, dtype)
        x, weights = torch.randn(2, 3, 11, 9, dtype=dtype)
        (output, slopes), (expected, others) = gradients(ours, x, weights), gradients(torchs, x, weights)
        torch.testing.assert_close(output, expected, atol=close, rtol=close)
        assert len(slopes) == len(others) == 5
        for slope, other in zip(slopes, others, strict=True):
            torch.testing.assert_close(slope, other, atol=10 * close, rtol=close)
        with torch.no_grad():
            assert torch.equal(ours(x), output)


def test_torchs_lstm_runs_in_fp32_on_a_cpu() -> None:
    _, torchs = pair("lstm", 9, 4)
    x, weights = torch.randn(2, 3, 11, 9)
    expected, slopes = gradients(torchs, x, weights)
    torchs.zero_grad()
    output, others = gradients(torchs, x, weights, bf16=True)
    assert torch.equal(output, expected) and all(map(torch.equal, slopes, others))


def test_a_gru_as_its_equations_are_written() -> None:
    """A GRU equals its equations, position by position and step by step, with zeros in front of the text."""
    ours, _ = pair("gru", 4, 3, torch.float64)
    x = torch.randn(1, 5, 4, dtype=torch.float64)
    padded = torch.cat((torch.zeros(2, 4, dtype=torch.float64), x[0]))
    w_r, w_z, w_n = ours.weight_ih.chunk(3)
    u_r, u_z, u_n = ours.weight_hh.chunk(3)
    b_r, b_z, b_n = ours.bias_ih.chunk(3)
    c_r, c_z, c_n = ours.bias_hh.chunk(3)
    for t in range(5):
        h = torch.zeros(4, dtype=torch.float64)
        for read in padded[t : t + 3]:
            r = torch.sigmoid(w_r @ read + b_r + u_r @ h + c_r)
            z = torch.sigmoid(w_z @ read + b_z + u_z @ h + c_z)
            n = torch.tanh(w_n @ read + b_n + r * (u_n @ h + c_n))
            h = (1 - z) * n + z * h
        torch.testing.assert_close(ours(x)[0, t], h)


class Largest(TorchDispatchMode):
    """Records the number of elements of the largest tensor that any operator creates."""

    elements = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        sizes = [part.numel() for part in tree_flatten(result)[0] if isinstance(part, Tensor)]
        self.elements = max([self.elements, *sizes])
        return result


def test_no_window_is_built() -> None:
    """Neither pass builds (B T, M, D): the inputs are mapped once, to 3 D for each position, padding included."""
    ours, torchs = pair("gru", 8, 16)
    x = torch.randn(2, 32, 8, requires_grad=True)
    largest = {}
    for module in (ours, torchs):
        with Largest() as seen:
            module(x).sum().backward()
        largest[module] = seen.elements
    assert largest[ours] == (32 + 16 - 1) * 2 * 3 * 8
    assert largest[torchs] >= 2 * 32 * 16 * 8


def test_in_autocast() -> None:
    ours, _ = pair("lstm", 16, 5)
    x = torch.randn(2, 12, 16)
    weights = torch.randn(2, 12, 16)
    output, low = gradients(ours, x, weights, bf16=True)
    assert output.dtype == torch.bfloat16
    ours.zero_grad()
    _, full = gradients(ours, x, weights)
    assert all(slope.dtype == torch.float32 for slope in low)
    for slope, other in zip(low, full, strict=True):
        assert (slope - other).norm() < 0.03 * other.norm()
