"""LocalRNN, section 3.1 of R-Transformer (Wang et al., 2019): a recurrent network over each position's last M inputs.

    h[t] = the last state of RNN(x[t-M+1], ..., x[t]) from a zero state        x is zero before the start

R-Transformer's code gathers all windows into (B T, M, D) and runs a recurrent network over them. Here nothing is
gathered, and each input is multiplied by W once, not once for each of its M windows. The backward pass is written out:
M steps, each over all windows at once. Weights have the names and the row order of torch.nn's recurrent cells, with
both biases.

Shapes: B lanes, T positions, D width, M window.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from highway.blocks.cells import CELLS, RNN, State
from highway.describe import uniform

CHUNK = 1 << 18  # windows * D of one chunk: the tensors of a step then stay in a CPU's cache


class Windows(torch.autograd.Function):
    """Compute the last h of the window that ends at each position: x (T, B, D) -> (T, B, D)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w: Tensor, u: Tensor, b: Tensor, c: Tensor, cell: type[RNN], window: int, keep: bool
    ) -> Tensor:
        length, batch, width = x.shape
        read = x.new_empty((length + window - 1) * batch, len(b))  # Wx + b by position, the zeros before x first
        read[: (window - 1) * batch] = b
        torch.addmm(b, x.reshape(-1, width), w.t(), out=read[(window - 1) * batch :])
        last = torch.empty_like(x, memory_format=torch.contiguous_format)
        kept: list[list[tuple[State, State]]] = []
        for first, end in _chunks(length * batch, width, x.device):
            state: State = (x.new_zeros(end - first, width),) * cell.states
            steps: list[tuple[State, State]] = []
            for step in range(window):
                recurrent = torch.addmm(c, state[0], u.t()) if step else c.repeat(end - first, 1)
                reads = read[step * batch + first : step * batch + end]
                new, needed = cell.step(reads, recurrent, state)
                if keep:
                    steps.append((state, needed))
                state = new
            last.view(-1, width)[first:end] = state[0]
            kept.append(steps)
        ctx.save_for_backward(x, w, u)
        ctx.kept, ctx.cell, ctx.window = kept, cell, window
        return last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        x, w, u = ctx.saved_tensors
        cell: type[RNN] = ctx.cell
        length, batch, width = x.shape
        d_last = gradients[0].reshape(-1, width)
        d_read = x.new_zeros((length + ctx.window - 1) * batch, w.shape[0])
        du, dc = torch.zeros_like(u), u.new_zeros(u.shape[0])
        chunks = _chunks(length * batch, width, x.device)
        for (first, end), steps in zip(reversed(chunks), reversed(ctx.kept), strict=True):
            gradient: State = (d_last[first:end], *(torch.zeros_like(d_last[first:end]),) * (cell.states - 1))
            d_recurrent = x.new_empty(end - first, u.shape[0])
            for step in reversed(range(ctx.window)):
                state, needed = steps[step]
                d_reads = d_read[step * batch + first : step * batch + end]
                gradient = cell.back(gradient, state, needed, d_reads, d_recurrent)
                dc += d_recurrent.sum(0)
                if step:  # the first state is zero and needs no gradient
                    torch.addmm(gradient[0], d_recurrent, u, out=gradient[0])
                    torch.addmm(du, d_recurrent.t(), state[0], out=du)
        of_x = d_read[(ctx.window - 1) * batch :]
        dx = (of_x @ w).view_as(x)
        return dx, of_x.t() @ x.reshape(-1, width), du, d_read.sum(0), dc, None, None, None


def _chunks(windows: int, width: int, device: torch.device) -> list[tuple[int, int]]:
    """Split the windows, which are independent, into ranges (first, end): on a CPU, small enough for its cache."""
    size = windows if device.type != "cpu" else max(CHUNK // width, 1)
    return [(first, min(first + size, windows)) for first in range(0, windows, size)]


class LocalRNN(nn.Module):
    def __init__(self, width: int, cell: str, window: int) -> None:
        super().__init__()
        self.cell, self.window = CELLS[cell], window
        rows, bound = self.cell.maps * width, 1 / math.sqrt(width)
        self.weight_ih = nn.Parameter(torch.empty(rows, width))
        self.weight_hh = nn.Parameter(torch.empty(rows, width))
        self.bias_ih = nn.Parameter(torch.empty(rows))
        self.bias_hh = nn.Parameter(torch.empty(rows))
        self.starts = {name: uniform(bound) for name, _ in self.named_parameters()}

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, T, D)
        parts: Sequence[Tensor] = (x.transpose(0, 1), self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        kind = "cuda" if x.is_cuda else "cpu"
        if torch.is_autocast_enabled(kind):
            parts = [part.to(torch.get_autocast_dtype(kind)) for part in parts]
        last = Windows.apply(*parts, self.cell, self.window, torch.is_grad_enabled())
        return last.transpose(0, 1).contiguous()
