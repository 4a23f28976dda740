"""A recurrent network over many steps on a CPU, for matrices larger than a core's cache.

torch adds to the gradient of U at every step, and each time reads and writes all of it. Here that gradient is one
product over all steps at the end, and U is prepared once for all steps. (An LSTM does not need this: oneDNN computes
it in the same way.)
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from highway.blocks.cells import CELLS, RNN, State
from highway.blocks.products import prepared

LARGE = 1 << 18  # elements of U; a core's own cache holds fewer


def pays(cell: str, u: Tensor) -> bool:
    """Return whether `recurrence` is the faster choice here, rather than torch's kernel."""
    learns = torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
    return cell != "lstm" and learns and u.device.type == "cpu" and u.numel() > LARGE


def recurrence(cell: str, read: Tensor, u: Tensor, c: Tensor, start: State) -> tuple[Tensor, State]:
    """Return h at every step (T, B, D) and the last state.

    read (T, B, maps * D) is Wx + b for all steps; start holds the tensors of the first state, (B, D) each.
    """
    h, *last = Steps.apply(CELLS[cell], read, u, c, *start)
    return h, tuple(last)


class Steps(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, cell: type[RNN], read: Tensor, u: Tensor, c: Tensor, *start: Tensor) -> tuple[Tensor, ...]:
        length, batch, _ = read.shape
        product = prepared(u, batch, c)
        h, state = read.new_empty(length, batch, u.shape[1]), start
        ctx.kept = []
        for reads, output in zip(read.unbind(), h.unbind(), strict=True):
            new, needed = cell.step(reads, product(state[0]), state)
            ctx.kept.append((state, needed))
            state = new
            output.copy_(state[0])
        ctx.cell = cell
        ctx.save_for_backward(u, start[0], h)
        return h, *(part.clone() for part in state)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        d_h, *of_last = gradients
        u, start, h = ctx.saved_tensors
        product = prepared(u.t(), start.shape[0])
        d_read = h.new_zeros(*h.shape[:2], u.shape[0])
        d_recurrent = torch.empty_like(d_read)
        gradient: State = tuple(of_last)
        steps = list(zip(ctx.kept, d_h.unbind(), d_read.unbind(), d_recurrent.unbind(), strict=True))
        for (state, needed), d_new, d_reads, d_recurrents in reversed(steps):
            gradient = ctx.cell.back((gradient[0] + d_new, *gradient[1:]), state, needed, d_reads, d_recurrents)
            gradient[0].add_(product(d_recurrents))
        before = torch.cat([start[None], h[:-1]])
        du = d_recurrent.flatten(0, 1).t() @ before.flatten(0, 1)
        return None, d_read, du, d_recurrent.sum((0, 1)), *gradient
