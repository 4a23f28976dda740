"""One time step of a recurrent highway network, forward and backward: its micro-layer, and its state gate.

rhn_loop.py repeats it, and has the equations. What lies between two matrix products is one function, which `fused`
compiles to one kernel on CUDA.

Shapes: B lanes, D width, T steps.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call

from highway.blocks.kernels import fused, packed_linear
from highway.gates.state import HighwayStateGate, NewState

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
tanh_backward = torch.ops.aten.tanh_backward.grad_input


def dropped(state: Tensor, drop: Tensor | None, out: Tensor) -> None:
    """Write to out (B, D) what a matrix reads of the state, in the precision of the products."""
    if drop is None:
        out.copy_(state)
    else:
        torch.mul(state, drop, out=out)


def add_read(ds: Tensor, d_read: Tensor, drop: Tensor | None) -> Tensor:
    """Add to ds, in place, the gradient of the state through `dropped`."""
    d_read = d_read.to(ds.dtype)
    return ds.add_(d_read) if drop is None else ds.addcmul_(d_read, drop)


def micro_layer(
    state: Tensor, maps: Sequence[Tensor], drop: Tensor | None, out: Tensor, reading: Tensor | None
) -> None:
    """Apply the activations of h, t and, if uncoupled, c to `maps` in place; write the next state to out (B, D).

    reading: where to write what the next matrix reads of that state; None if it reads `out`, or if none follows.
    """
    h, t, *c = maps
    h.tanh_()
    for part in (t, *c):
        part.sigmoid_()
    if c:
        torch.mul(h, t, out=out).addcmul_(state, c[0])
    else:
        torch.lerp(state, h, t, out=out)
    if reading is not None:
        dropped(out, drop, out=reading)


def micro_layer_back(
    ds: Tensor,
    d_read: Tensor | None,
    drop: Tensor | None,
    state: Tensor,
    maps: Sequence[Tensor],
    d_maps: Sequence[Tensor],
) -> Tensor:
    """Fill d_maps, the gradients of the maps; return the gradient of the state, without the part through the maps.

    d_read: that part of the micro-layer above, which is first added to ds; None for the last micro-layer of a step.
    """
    if d_read is not None:
        ds = add_read(ds, d_read, drop)
    (h, t, *c), (d_h, d_t, *d_c) = maps, d_maps
    of_new = ds * t
    tanh_backward(of_new, h, grad_input=d_h)
    if c:
        sigmoid_backward(ds * h, t, grad_input=d_t)
        sigmoid_backward(ds * state, c[0], grad_input=d_c[0])
        return ds * c[0]
    sigmoid_backward((h - state).mul_(ds), t, grad_input=d_t)
    return ds - of_new


class GateSteps(Protocol):
    """The steps of a state gate. `previous` and `new` are (B, D); in `parameters_back`, of all steps, (T, B, D)."""

    def saved_by_steps(self, new: Tensor) -> Tensor:
        """Allocate what all steps save for the backward pass: new (T, B, D) -> (T, B, any width)."""

    def step(self, previous: Tensor, new: Tensor, drop: Tensor | None, saved: Tensor, out: Tensor) -> None:
        """Write the gated state to out (B, D), and what the backward pass needs to `saved`."""

    def step_back(
        self, ds: Tensor, previous: Tensor, new: Tensor, drop: Tensor | None, saved: Tensor, d_maps: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the gradients of previous and new; fill d_maps (B, D), which `parameters_back` reads."""

    def parameters_back(self, previous: Tensor, new: Tensor, drop: Tensor | None, d_maps: Tensor) -> Sequence[Tensor]:
        """Return the gradients of the gate's parameters, summed over all steps."""


class HighwaySteps(GateSteps):
    """The steps of HSG (highway/gates/state.py), with W_R and W_F side by side, so that a step is one product:

    g = sigmoid([W_R W_F] [s[t-1] * drop; new * drop] + b)        s[t] = g s[t-1] + (1 - g) new
    """

    def __init__(self, gate: HighwayStateGate, parameters: Sequence[Tensor], precision: torch.dtype, rows: int) -> None:
        of_previous, of_new, self.bias = parameters
        self.weight = torch.cat((of_previous, of_new), 1).to(precision)  # (D, 2 D)
        self.dropped, self.rows = gate.dropped, rows

    def saved_by_steps(self, new: Tensor) -> Tensor:
        return torch.empty_like(new)

    def step(self, previous: Tensor, new: Tensor, drop: Tensor | None, saved: Tensor, out: Tensor) -> None:
        read = fused(pair_read, new)(previous, new, drop if self.dropped else None, self.weight.dtype)
        fused(hsg, new)(self._maps(read), self.bias, previous, new, saved, out)

    def step_back(
        self, ds: Tensor, previous: Tensor, new: Tensor, drop: Tensor | None, saved: Tensor, d_maps: Tensor
    ) -> tuple[Tensor, Tensor]:
        d_previous, d_new = fused(hsg_back, new)(ds, previous, new, saved, d_maps)
        d_read = self._maps_back(d_maps.to(self.weight.dtype))
        return fused(add_pair_read, new)(d_previous, d_new, d_read, drop if self.dropped else None)

    def parameters_back(self, previous: Tensor, new: Tensor, drop: Tensor | None, d_maps: Tensor) -> Sequence[Tensor]:
        read = pair_read(previous, new, drop if self.dropped else None, self.weight.dtype).flatten(0, 1)
        d_rows = d_maps.flatten(0, 1)
        d_weight = (d_rows.t().to(read.dtype) @ read).to(new.dtype)
        return *d_weight.chunk(2, 1), d_rows.sum(0)

    @cached_property
    def _maps(self) -> Callable[[Tensor], Tensor]:
        return packed_linear(self.weight, self.rows)

    @cached_property
    def _maps_back(self) -> Callable[[Tensor], Tensor]:
        return packed_linear(self.weight.t(), self.rows)


def pair_read(previous: Tensor, new: Tensor, drop: Tensor | None, precision: torch.dtype) -> Tensor:
    """Return what the matrix of HSG reads (..., 2 D)."""
    read = torch.stack((previous, new), -2)
    if drop is not None:
        read = read * drop[:, None]
    return read.flatten(-2).to(precision)


def hsg(product: Tensor, bias: Tensor, previous: Tensor, new: Tensor, saved: Tensor, out: Tensor) -> None:
    """Write g to `saved` and the gated state to out."""
    torch.add(product, bias, out=saved).sigmoid_()
    torch.lerp(new, previous, saved, out=out)


def hsg_back(ds: Tensor, previous: Tensor, new: Tensor, saved: Tensor, d_maps: Tensor) -> tuple[Tensor, Tensor]:
    """Fill d_maps; return the gradients of previous and new, without the part through the maps."""
    d_previous = ds * saved
    d_new = ds - d_previous
    sigmoid_backward((previous - new).mul_(ds), saved, grad_input=d_maps)
    return d_previous, d_new


def add_pair_read(d_previous: Tensor, d_new: Tensor, d_read: Tensor, drop: Tensor | None) -> tuple[Tensor, Tensor]:
    """Add to both gradients, in place, the part through `pair_read`."""
    of_previous, of_new = d_read.chunk(2, 1)
    return add_read(d_previous, of_previous, drop), add_read(d_new, of_new, drop)


class AutogradSteps(GateSteps):
    """The steps of any other state gate: the backward step evaluates it again, and autograd differentiates it."""

    def __init__(self, gate: nn.Module, parameters: Sequence[Tensor], precision: torch.dtype) -> None:
        self.gate, self.parameters, self.precision = gate, parameters, precision

    def saved_by_steps(self, new: Tensor) -> Tensor:
        return new.new_empty(*new.shape[:2], 0)

    def step(self, previous: Tensor, new: Tensor, drop: Tensor | None, saved: Tensor, out: Tensor) -> None:
        out.copy_(self._gate(self.parameters, previous, new, drop))

    def step_back(
        self, ds: Tensor, previous: Tensor, new: Tensor, drop: Tensor | None, saved: Tensor, d_maps: Tensor
    ) -> tuple[Tensor, Tensor]:
        d_maps.copy_(ds)
        with torch.enable_grad():
            previous, new = leaves(previous, new)
            gated = self._gate(self.parameters, previous, new, drop)
            d_previous, d_new = torch.autograd.grad(gated, (previous, new), ds, materialize_grads=True)
        return d_previous, d_new

    def parameters_back(self, previous: Tensor, new: Tensor, drop: Tensor | None, d_maps: Tensor) -> Sequence[Tensor]:
        if not self.parameters:
            return ()
        with torch.enable_grad():
            parameters = leaves(*self.parameters)
            return torch.autograd.grad(
                self._gate(parameters, previous, new, drop), parameters, d_maps, materialize_grads=True
            )

    def _gate(self, parameters: Sequence[Tensor], previous: Tensor, new: Tensor, drop: Tensor | None) -> Tensor:
        """Call the gate with these parameters; its products use the precision of the loop's other products."""
        names = [name for name, _ in self.gate.named_parameters()]
        lower = self.precision in (torch.bfloat16, torch.float16)
        cast: Any = torch.autocast(new.device.type, self.precision, cache_enabled=False) if lower else nullcontext()
        with cast:
            return functional_call(self.gate, dict(zip(names, parameters, strict=True)), (previous, new, drop))


def gate_steps(
    gate: nn.Module, parameters: Sequence[Tensor], precision: torch.dtype, rows: int, saves: bool = True
) -> GateSteps | None:
    """Return the steps of this gate with these parameters, for `rows` lanes; None if the state is not gated.

    saves: False if nothing will be differentiated; a gate with forward hooks is then called as a module.
    """
    if isinstance(gate, NewState):
        return None
    hooked = not saves and gate._forward_hooks
    if type(gate) is HighwayStateGate and not hooked:  # a subclass may compute something else
        return HighwaySteps(gate, parameters, precision, rows)
    return AutogradSteps(gate, parameters, precision)


def leaves(*tensors: Tensor) -> list[Tensor]:
    """Return views of new leaf tensors with the same values, because FlopCounterMode cannot hook the leaves."""
    return [leaf.view_as(leaf) for leaf in (tensor.detach().requires_grad_() for tensor in tensors)]
