"""LocalRNN, section 3.1 of R-Transformer (Wang et al., 2019): a recurrent network over each position's last M inputs.

    h[t] = the last state of RNN(x[t-M+1], ..., x[t]) from a zero state        x is zero before the start

    RNN    h' = tanh(Wx + b + Uh + c)
    GRU    r, z = sigmoid(Wx + b + Uh + c)      n = tanh(Vx + d + r (Qh + e))      h' = (1 - z) n + z h
    LSTM   i, f, o = sigmoid(Wx + b + Uh + c)   g = tanh(likewise)          C' = f C + i g,   h' = o tanh C'

R-Transformer's code gathers all windows into (B T, M, D) and runs a recurrent network over them. Here nothing is
gathered, and each input is multiplied by W once, not once for each of its M windows. Both passes are written out:
Wx + b for all positions at once, then M steps, each over all windows. Weights have the names and the row order of
torch.nn's recurrent cells, with both biases.

Shapes: B lanes, T positions, D width, M window, N windows.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from highway.describe import copied, uniform

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
tanh_backward = torch.ops.aten.tanh_backward.grad_input
State = tuple[Tensor, ...]  # h, for an LSTM also C; (N, D) each
CHUNK = 1 << 18  # number of windows times D in a chunk: the tensors of a step then fit into a CPU's cache


class RNN:
    """One step of a recurrent cell and its derivative, over N windows.

    `maps` is the number of blocks of D rows in W and in U, `states` the number of tensors in a state.
    """

    maps, states = 1, 1

    @staticmethod
    def step(read: Tensor, recurrent: Tensor, state: State) -> tuple[State, State]:
        """Return the next state, and what `back` needs.

        read (N, maps * D) is Wx + b. recurrent (N, maps * D) is Uh + c; the step overwrites it.
        """
        h = recurrent.add_(read).tanh_()
        return (h,), (h,)

    @staticmethod
    def back(gradient: State, state: State, saved: State, d_read: Tensor, d_recurrent: Tensor) -> State:
        """Add to d_read, fill d_recurrent; return the gradient of the earlier state, without the part through U."""
        tanh_backward(gradient[0], saved[0], grad_input=d_recurrent)
        d_read += d_recurrent
        return (torch.zeros_like(gradient[0]),)


class GRU(RNN):
    maps = 3

    @staticmethod
    def step(read: Tensor, recurrent: Tensor, state: State) -> tuple[State, State]:
        width = read.shape[1] // 3
        r, z = recurrent[:, : 2 * width].add_(read[:, : 2 * width]).sigmoid_().chunk(2, 1)
        n = torch.addcmul(read[:, 2 * width :], r, recurrent[:, 2 * width :]).tanh_()
        return (torch.lerp(n, state[0], z),), (recurrent, n)

    @staticmethod
    def back(gradient: State, state: State, saved: State, d_read: Tensor, d_recurrent: Tensor) -> State:
        (dh,), (h,), (recurrent, n) = gradient, state, saved
        r, z, of_state = recurrent.chunk(3, 1)
        dr, dz, d_of_state = d_recurrent.chunk(3, 1)
        width = n.shape[1]
        through = dh * z
        dn = torch.empty_like(n)
        tanh_backward(dh - through, n, grad_input=dn)
        sigmoid_backward((h - n).mul_(dh), z, grad_input=dz)
        sigmoid_backward(dn * of_state, r, grad_input=dr)
        torch.mul(dn, r, out=d_of_state)
        d_read[:, : 2 * width] += d_recurrent[:, : 2 * width]
        d_read[:, 2 * width :] += dn
        return (through,)


class LSTM(RNN):
    maps, states = 4, 2

    @staticmethod
    def step(read: Tensor, recurrent: Tensor, state: State) -> tuple[State, State]:
        width = read.shape[1] // 4
        i, f, g, o = recurrent.add_(read).chunk(4, 1)
        recurrent[:, : 2 * width].sigmoid_()
        g.tanh_()
        o.sigmoid_()
        cell = (f * state[1]).addcmul_(i, g)
        squashed = cell.tanh()
        return (o * squashed, cell), (recurrent, squashed)

    @staticmethod
    def back(gradient: State, state: State, saved: State, d_read: Tensor, d_recurrent: Tensor) -> State:
        (dh, d_cell), (recurrent, squashed) = gradient, saved
        i, f, g, o = recurrent.chunk(4, 1)
        di, df, dg, do = d_recurrent.chunk(4, 1)
        through = torch.empty_like(squashed)
        tanh_backward(dh * o, squashed, grad_input=through)
        through += d_cell
        sigmoid_backward(through * g, i, grad_input=di)
        sigmoid_backward(through * state[1], f, grad_input=df)
        tanh_backward(through * i, g, grad_input=dg)
        sigmoid_backward(dh * squashed, o, grad_input=do)
        d_read += d_recurrent
        return (torch.zeros_like(dh), through.mul_(f))


CELLS: dict[str, type[RNN]] = {"gru": GRU, "lstm": LSTM, "rnn": RNN}


class LocalRNNFunction(torch.autograd.Function):
    """Compute the last h of the window that ends at each position: x (T, B, D) -> (T, B, D)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w: Tensor, u: Tensor, b: Tensor, c: Tensor, cell: type[RNN], window: int, saves: bool
    ) -> Tensor:
        length, batch, width = x.shape
        read = x.new_empty((length + window - 1) * batch, len(b))  # Wx + b by position, the zeros before x first
        read[: (window - 1) * batch] = b
        torch.addmm(b, x.reshape(-1, width), w.t(), out=read[(window - 1) * batch :])
        last = torch.empty_like(x, memory_format=torch.contiguous_format)
        saved: list[list[tuple[State, State]]] = []
        for first, end in _chunks(length * batch, width, x.device):
            state: State = (x.new_zeros(end - first, width),) * cell.states
            steps: list[tuple[State, State]] = []
            for step in range(window):
                recurrent = torch.addmm(c, state[0], u.t()) if step else c.repeat(end - first, 1)
                reads = read[step * batch + first : step * batch + end]
                new, needed = cell.step(reads, recurrent, state)
                if saves:
                    steps.append((state, needed))
                state = new
            last.view(-1, width)[first:end] = state[0]
            saved.append(steps)
        ctx.save_for_backward(x, w, u)
        ctx.saved, ctx.cell, ctx.window = saved, cell, window
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
        for (first, end), steps in zip(reversed(chunks), reversed(ctx.saved), strict=True):
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

    def start_as(self, other: "LocalRNN") -> None:
        """Start with the values of another LocalRNN, which is drawn before."""
        self.starts = {name: copied(other, name) for name in self.starts}

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, T, D)
        parts: Sequence[Tensor] = (x.transpose(0, 1), self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        kind = "cuda" if x.is_cuda else "cpu"
        if torch.is_autocast_enabled(kind):
            parts = [part.to(torch.get_autocast_dtype(kind)) for part in parts]
        last = LocalRNNFunction.apply(*parts, self.cell, self.window, torch.is_grad_enabled())
        return last.transpose(0, 1).contiguous()
