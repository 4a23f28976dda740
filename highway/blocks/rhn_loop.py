"""The time loop of a recurrent highway network (Zilly et al., 2017) with its state gate, both passes written out.

    u = s * drop        h = tanh(W_H u + b_H)        t = sigmoid(W_T u + b_T)        c = 1 - t, or sigmoid(W_C u + b_C)
    s <- h t + s c      in each micro-layer; in the first, the maps also add W x of the input
    s[t] = gate(s[t-1], s after the last micro-layer, drop)                                            HSG, Eqs. 1-6

Matrices are prepared once per window, not once per step. The backward loop computes only what depends on the next step;
the gradient of a matrix is one product over all steps at the end. On CUDA the loops are captured as graphs, and what
lies between two products is one compiled kernel.

Shapes: L micro-layers, T steps, B lanes, D width; K maps: 2 (H, T), or 3 with C.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.func import functional_call

from highway.blocks.kernels import Captured, by_step, fused, packed_linear, precision_of_products, without_autocast
from highway.gates.state import HighwayStateGate, NewState

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
tanh_backward = torch.ops.aten.tanh_backward.grad_input


class Steps(NamedTuple):
    """All steps of a window: the states, and what the backward pass needs of each step."""

    states: Tensor  # (T, B, D), s[t]
    before: Tensor  # (L, T, B, D), the state before each micro-layer
    read: Tensor  # (L, T, B, D), the same after dropout, as the matrix reads it
    maps: Tensor  # (L, T, B, K D), h, t and c
    new: Tensor  # (T, B, D), the state that the gate gets
    gate_saved: Tensor  # (T, B, any width), what the gate saves


@dataclass
class Loop:
    """The time loop of one layer, with `depth` micro-layers in each step.

    A call takes the matrix (K D, D) of each micro-layer, and the bias (K D) of each but the first: `reads`
    already contains that of the first.
    """

    gate: nn.Module
    depth: int
    in_graphs: bool = True  # on CUDA; False launches the kernels one by one

    def __post_init__(self) -> None:
        self.graphs: dict[tuple[str, torch.dtype], Captured] = {}

    def __call__(
        self, reads: Tensor, start: Tensor, drop: Tensor | None, weights: Sequence[Tensor], biases: Sequence[Tensor]
    ) -> Tensor:
        """Compute the states (T, B, D) from reads (T, B, K D), which is W x + b, and start and drop (B, D)."""
        parameters = (*weights, *biases, *self.gate.parameters())
        saves = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (reads, start, *parameters))
        return LoopFunction.apply(self, precision_of_products(reads), saves, reads, start, drop, *parameters)

    def run(self, kind: str, precision: torch.dtype, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        """Call `states`, `steps` or `gradients`, by kind; on CUDA as a graph, as each is thousands of small kernels."""
        function: Any = partial(getattr(self, kind), precision)
        if (
            self.in_graphs
            and not self.gate._forward_hooks
            and any(tensor is not None and tensor.is_cuda for tensor in tensors)
            and not torch.cuda.is_current_stream_capturing()  # the graph of a whole update has the kernels in it
        ):
            function = self.graphs.setdefault((kind, precision), Captured(function))
        return function(*(None if tensor is None else tensor.detach() for tensor in tensors))  # autograd sees run alone

    def states(self, precision: torch.dtype, *given: Any) -> tuple[Tensor]:
        """Compute the states alone, in the memory of one step."""
        return (self.steps(precision, *given, saves=False).states,)

    def steps(
        self,
        precision: torch.dtype,
        reads: Tensor,
        start: Tensor,
        drop: Tensor | None,
        *parameters: Tensor,
        saves: bool = True,
    ) -> Steps:
        """Compute all steps. With saves=False, everything but the states has the size of one step."""
        weights, biases, of_gate = self._parts(parameters)
        length, batch, width = len(reads), *start.shape
        gate = gate_steps(self.gate, of_gate, precision, batch, saves)
        products = [packed_linear(weight.to(precision), batch) for weight in weights]
        room = length if saves else 1
        states = start.new_empty(length, batch, width)
        before = start.new_empty(self.depth, room, batch, width)
        separate = drop is not None or precision != start.dtype
        read = before.new_empty(before.shape, dtype=precision) if separate else before
        maps = start.new_empty(self.depth, room, batch, reads.shape[2])
        new = start.new_empty(room, batch, width) if gate else states
        gate_saved = gate.saved_by_steps(new) if gate else start.new_empty(0)
        views = by_step(before, read, maps, *maps.split(width, 3))
        apply = fused(micro_layer, start)
        previous = start
        for step, added in enumerate(reads.unbind()):
            at = step if saves else 0
            befores = [view[0] for view in views[at]]
            afters = [*befores[1:], new[at] if gate else states[step]]
            readings = [view[1] for view in views[at]]
            nexts = [*readings[1:], None] if separate else [None] * self.depth
            befores[0].copy_(previous)
            if separate:
                dropped(previous, drop, out=readings[0])
            for layer, (state, reading, mapped, *parts) in enumerate(views[at]):
                torch.add(products[layer](reading), biases[layer - 1] if layer else added, out=mapped)
                apply(state, parts, drop, out=afters[layer], reading=nexts[layer])
            if gate:
                gate.step(previous, new[at], drop, gate_saved[at], out=states[step])
            previous = states[step]
        return Steps(states, before, read, maps, new, gate_saved)

    def gradients(
        self, precision: torch.dtype, d_states: Tensor, start: Tensor, drop: Tensor | None, *rest: Tensor
    ) -> tuple[Tensor, ...]:
        """Return the gradients of reads, start, matrices, biases and the gate's parameters.

        rest: what `steps` returned, then the parameters.
        """
        states, before, read, maps, new, gate_saved = rest[:6]
        weights, _, of_gate = self._parts(rest[6:])
        length, batch, width = states.shape
        gate = gate_steps(self.gate, of_gate, precision, batch)
        products = [packed_linear(weight.to(precision).t(), batch) for weight in weights]
        d_maps = torch.empty_like(maps, dtype=precision)
        d_gate_maps = torch.empty_like(states)
        views = by_step(before, d_maps, *maps.split(width, 3), *d_maps.split(width, 3))
        apply_back = fused(micro_layer_back, start)
        ds = torch.zeros_like(start)
        for step in reversed(range(length)):
            ds = ds + d_states[step]
            if gate:
                previous = states[step - 1] if step else start
                d_previous, ds = gate.step_back(ds, previous, new[step], drop, gate_saved[step], d_gate_maps[step])
            d_read: Tensor | None = None
            for product, (state, d_both, *parts) in zip(reversed(products), reversed(views[step]), strict=True):
                count = len(parts) // 2
                ds = apply_back(ds, d_read, drop, state, parts[:count], parts[count:])
                d_read = product(d_both)
            assert d_read is not None  # there is a micro-layer
            ds = add_read(ds, d_read, drop)
            if gate:
                ds = ds + d_previous
        rows, columns = d_maps.flatten(1, 2), read.flatten(1, 2)
        d_weights = [(rows[layer].t() @ columns[layer]).to(ds.dtype) for layer in range(self.depth)]
        d_biases = d_maps[1:].sum((1, 2), dtype=ds.dtype)
        d_gate: Sequence[Tensor] = ()
        if gate:
            d_gate = gate.parameters_back(torch.cat([start[None], states[:-1]]), new, drop, d_gate_maps)
        return d_maps[0].to(ds.dtype), ds, *d_weights, *d_biases, *d_gate

    def _parts(self, parameters: Sequence[Tensor]) -> tuple[Sequence[Tensor], ...]:
        """Split the parameters into matrices, biases, and the gate's parameters."""
        biases = 2 * self.depth - 1
        return parameters[: self.depth], parameters[self.depth : biases], parameters[biases:]


class LoopFunction(torch.autograd.Function):
    """Compute all steps of a window. The arguments after drop are matrices, biases and the gate's parameters."""

    @staticmethod
    def forward(
        ctx: Any,
        loop: Loop,
        precision: torch.dtype,
        saves: bool,
        reads: Tensor,
        start: Tensor,
        drop: Tensor | None,
        *parameters: Tensor,
    ) -> Tensor:
        with without_autocast(reads):
            states, *saved = loop.run("steps" if saves else "states", precision, reads, start, drop, *parameters)
        if saves:
            ctx.loop, ctx.precision = loop, precision
            ctx.save_for_backward(start, drop, states, *saved, *parameters)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        d_reads, d_start, *others = ctx.loop.run("gradients", ctx.precision, gradients[0], *ctx.saved_tensors)
        return None, None, None, d_reads, d_start, None, *others


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
