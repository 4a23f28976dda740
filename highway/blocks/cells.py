"""One step of each recurrent cell, and its derivative, written out for N rows at once:

    RNN    h' = tanh(Wx + b + Uh + c)
    GRU    r, z = sigmoid(Wx + b + Uh + c)      n = tanh(Vx + d + r (Qh + e))      h' = (1 - z) n + z h
    LSTM   i, f, o = sigmoid(Wx + b + Uh + c)   g = tanh(the same)                 C' = f C + i g,   h' = o tanh C'

The caller computes both sums of a step: Wx + b for all steps at once, Uh + c step by step.
"""

import torch
from torch import Tensor

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
tanh_backward = torch.ops.aten.tanh_backward.grad_input
State = tuple[Tensor, ...]  # h, for an LSTM also C; (N, D) each


class RNN:
    """One step of a recurrent cell and its derivative, over N rows.

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
    def back(gradient: State, state: State, kept: State, d_read: Tensor, d_recurrent: Tensor) -> State:
        """Add to d_read, fill d_recurrent; return the gradient of the earlier state, without the part through U."""
        tanh_backward(gradient[0], kept[0], grad_input=d_recurrent)
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
    def back(gradient: State, state: State, kept: State, d_read: Tensor, d_recurrent: Tensor) -> State:
        (dh,), (h,), (recurrent, n) = gradient, state, kept
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
    def back(gradient: State, state: State, kept: State, d_read: Tensor, d_recurrent: Tensor) -> State:
        (dh, d_cell), (recurrent, squashed) = gradient, kept
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
