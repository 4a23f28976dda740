"""The time loop of a recurrent highway network (Zilly et al., 2017) with its state gate, both passes written out.

    u = s * drop        h = tanh(W_H u + b_H)        t = sigmoid(W_T u + b_T)        c = 1 - t, or sigmoid(W_C u + b_C)
    s <- h t + s c      in each micro-layer; in the first, the maps also add W x of the input
    s[t] = gate(s[t-1], s after the last micro-layer, drop)                                            HSG, Eqs. 1-6

Matrices are prepared once per window, not once per step. The backward loop computes only what depends on the next step;
the gradient of a matrix is one product over all steps at the end. On CUDA the loops are captured as graphs, and what
lies between two products is one compiled kernel.

Shapes: L micro-layers, T steps, B lanes, D width; K maps: 2 (H, T), or 3 with C.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from highway.blocks.kernels import Captured, by_step, fused, packed_linear, precision_of_products, without_autocast
from highway.blocks.rhn_step import add_read, dropped, gate_steps, micro_layer, micro_layer_back


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
