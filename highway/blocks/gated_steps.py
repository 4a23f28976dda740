"""Steps of a state gate (highway/gates/state.py) inside the time loop of a recurrent highway network.

    s[t] = gate(s[t-1], new, drop)        forward, backward, and the gradient of the gate's parameters over all steps

`ByAutograd` serves any gate: its backward step evaluates the gate again and lets autograd differentiate it. `Highway`
is HSG written out, with W_R and W_F side by side, so that a step is one product with a prepared matrix:

    g = sigmoid([W_R W_F] [s[t-1] * drop; new * drop] + b)        s[t] = g s[t-1] + (1 - g) new

Shapes: B lanes, T steps, D width. `step` and `step_back` take `previous` and `new` (B, D) of one step;
`parameters_back` takes those of all steps, (T, B, D).
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from highway.blocks.products import prepared
from highway.gates.state import HighwayStateGate, NewState

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input


class ByAutograd:
    def __init__(self, gate: nn.Module, parameters: Sequence[Tensor], precision: torch.dtype) -> None:
        self.gate, self.parameters, self.precision = gate, parameters, precision

    def kept_by_steps(self, new: Tensor) -> Tensor:
        """Allocate what the steps keep for the backward pass: new (T, B, D) -> (T, B, any width)."""
        return new.new_empty(*new.shape[:2], 0)

    def step(self, previous: Tensor, new: Tensor, drop: Tensor | None, kept: Tensor, out: Tensor) -> None:
        out.copy_(self._gate(self.parameters, previous, new, drop))

    def step_back(
        self, ds: Tensor, previous: Tensor, new: Tensor, drop: Tensor | None, kept: Tensor, d_maps: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the gradients of previous and new; fill d_maps (B, D), which `parameters_back` reads."""
        d_maps.copy_(ds)
        with torch.enable_grad():
            previous, new = leaves(previous, new)
            gated = self._gate(self.parameters, previous, new, drop)
            d_previous, d_new = torch.autograd.grad(gated, (previous, new), ds, materialize_grads=True)
        return d_previous, d_new

    def parameters_back(self, previous: Tensor, new: Tensor, drop: Tensor | None, d_maps: Tensor) -> Sequence[Tensor]:
        """Return the gradients of the gate's parameters, summed over all steps."""
        if not self.parameters:
            return ()
        with torch.enable_grad():
            parameters = leaves(*self.parameters)
            return torch.autograd.grad(self._gate(parameters, previous, new, drop), parameters, d_maps)

    def _gate(self, parameters: Sequence[Tensor], previous: Tensor, new: Tensor, drop: Tensor | None) -> Tensor:
        """Call the gate with these parameters; its products use the precision of the loop's other products."""
        names = [name for name, _ in self.gate.named_parameters()]
        lower = self.precision in (torch.bfloat16, torch.float16)
        cast: Any = torch.autocast(new.device.type, self.precision, cache_enabled=False) if lower else nullcontext()
        with cast:
            return functional_call(self.gate, dict(zip(names, parameters, strict=True)), (previous, new, drop))


class Highway:
    def __init__(self, gate: HighwayStateGate, parameters: Sequence[Tensor], precision: torch.dtype, rows: int) -> None:
        of_previous, of_new, self.bias = parameters
        self.weight = torch.cat((of_previous, of_new), 1).to(precision)  # (D, 2 D)
        self.dropped, self.rows = gate.dropped, rows

    def kept_by_steps(self, new: Tensor) -> Tensor:
        """Allocate g for all steps, (T, B, D)."""
        return torch.empty_like(new)

    def step(self, previous: Tensor, new: Tensor, drop: Tensor | None, kept: Tensor, out: Tensor) -> None:
        torch.add(self._maps(self._read(previous, new, drop)), self.bias, out=kept).sigmoid_()
        torch.lerp(new, previous, kept, out=out)

    def step_back(
        self, ds: Tensor, previous: Tensor, new: Tensor, drop: Tensor | None, kept: Tensor, d_maps: Tensor
    ) -> tuple[Tensor, Tensor]:
        d_previous = ds * kept
        d_new = ds - d_previous
        sigmoid_backward((previous - new).mul_(ds), kept, grad_input=d_maps)
        d_read = self._maps_back(d_maps.to(self.weight.dtype)).to(ds.dtype)
        for gradient, of_read in zip((d_previous, d_new), d_read.chunk(2, 1), strict=True):
            if drop is None or not self.dropped:
                gradient.add_(of_read)
            else:
                gradient.addcmul_(of_read, drop)
        return d_previous, d_new

    def parameters_back(self, previous: Tensor, new: Tensor, drop: Tensor | None, d_maps: Tensor) -> Sequence[Tensor]:
        d_rows, read = d_maps.flatten(0, 1), self._read(previous, new, drop).flatten(0, 1)
        d_weight = (d_rows.t().to(read.dtype) @ read).to(new.dtype)
        return *d_weight.chunk(2, 1), d_rows.sum(0)

    @cached_property
    def _maps(self) -> Callable[[Tensor], Tensor]:
        return prepared(self.weight, self.rows)

    @cached_property
    def _maps_back(self) -> Callable[[Tensor], Tensor]:
        return prepared(self.weight.t(), self.rows)

    def _read(self, previous: Tensor, new: Tensor, drop: Tensor | None) -> Tensor:  # (..., 2 D)
        read = torch.stack((previous, new), -2)
        if drop is not None and self.dropped:
            read = read * drop[:, None]
        return read.flatten(-2).to(self.weight.dtype)


def steps_of(
    gate: nn.Module, parameters: Sequence[Tensor], precision: torch.dtype, rows: int, keep: bool = True
) -> Highway | ByAutograd | None:
    """Return the steps of this gate with these parameters, for `rows` lanes; None if the state is not gated.

    keep: True if the steps will be differentiated. If not, a gate with forward hooks is called as a module.
    """
    if isinstance(gate, NewState):
        return None
    hooked = not keep and gate._forward_hooks
    if type(gate) is HighwayStateGate and not hooked:  # a subclass may compute something else
        return Highway(gate, parameters, precision, rows)
    return ByAutograd(gate, parameters, precision)


def leaves(*tensors: Tensor) -> list[Tensor]:
    """Return views of new leaf tensors with the same values, because FlopCounterMode cannot hook the leaves."""
    return [leaf.view_as(leaf) for leaf in (tensor.detach().requires_grad_() for tensor in tensors)]
