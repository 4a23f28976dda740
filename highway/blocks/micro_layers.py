"""The time loop of a recurrent highway network (Zilly et al., 2017; HSG, Eqs. 1-6), forward and backward written out.

    u = s * drop        h = tanh(W_H u + b_H)        t = sigmoid(W_T u + b_T)        c = 1 - t, or sigmoid(W_C u + b_C)
    s <- h t + s c      in each micro-layer; in the first, the maps also add W x of the input
    s[t] = gate(s[t-1], s after the last micro-layer, drop)

Matrices are prepared once per window, not once per step. The backward loop computes only what depends on the next step;
the gradient of a matrix is one product over all steps at the end. The steps of the gate are in gated_steps.py. With
`recompute_every`, the forward pass keeps only the states; the backward pass recomputes the rest, that many steps at a
time. On CUDA the loops are captured as graphs.

Shapes: L micro-layers, T steps, B lanes, D width; maps is 2 (H, T), or 3 with C.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from highway.blocks.captured import Captured
from highway.blocks.gated_steps import steps_of
from highway.blocks.products import precision_of_products, prepared

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
tanh_backward = torch.ops.aten.tanh_backward.grad_input


@dataclass
class Loop:
    """The time loop of one layer, with `depth` micro-layers in each step.

    A call takes the matrix (maps D, D) of each micro-layer, and the bias (maps D) of each but the first: `reads`
    already contains that of the first.
    """

    gate: nn.Module
    depth: int
    recompute_every: int | None = None
    in_graphs: bool = True  # on CUDA; False launches the kernels one by one

    def __post_init__(self) -> None:
        self.graphs: dict[tuple[str, torch.dtype], Captured] = {}

    def __call__(
        self, reads: Tensor, start: Tensor, drop: Tensor | None, weights: Sequence[Tensor], biases: Sequence[Tensor]
    ) -> Tensor:
        """Compute the states (T, B, D) from reads (T, B, maps D), which is W x + b, and start and drop (B, D)."""
        parameters = (*weights, *biases, *self.gate.parameters())
        learns = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (reads, start, *parameters))
        return Window.apply(self, precision_of_products(reads), learns, reads, start, drop, *parameters)

    def segments(self, length: int) -> list[slice]:
        size = self.recompute_every or length
        return [slice(first, min(first + size, length)) for first in range(0, length, size)]

    def run(self, kind: str, precision: torch.dtype, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        """Call _forward, _kept or _backward, by kind; on CUDA as a graph, as each is thousands of small kernels."""
        function: Any = partial(getattr(self, f"_{kind}"), precision)
        if self.in_graphs and any(tensor is not None and tensor.is_cuda for tensor in tensors):
            function = self.graphs.setdefault((kind, precision), Captured(function))
        return function(*tensors)

    def _forward(self, precision: torch.dtype, *given: Any) -> tuple[Tensor, ...]:
        return self._steps(precision, False, *given)[:1]

    def _kept(self, precision: torch.dtype, *given: Any) -> tuple[Tensor, ...]:
        return self._steps(precision, True, *given)

    def _steps(
        self,
        precision: torch.dtype,
        keep: bool,
        reads: Tensor,
        start: Tensor,
        drop: Tensor | None,
        *parameters: Tensor,
    ) -> tuple[Tensor, ...]:
        """Return the states, and what the backward pass needs.

        before[l]: the state before micro-layer l. read[l]: the same state after dropout, as the matrix reads it.
        maps[l]: h, t and c. new: the state that the gate gets. gated: what the gate keeps.
        """
        weights, biases, of_gate = self._parts(parameters)
        length, batch, _ = reads.shape
        gate = steps_of(self.gate, of_gate, precision, batch, keep)
        width = start.shape[1]
        products = [prepared(weight.to(precision), batch) for weight in weights]
        room = length if keep else 1
        states = start.new_empty(length, batch, width)
        before = start.new_empty(self.depth, room, batch, width)
        separate = drop is not None or precision != start.dtype
        read = before.new_empty(before.shape, dtype=precision) if separate else before
        maps = start.new_empty(self.depth, room, batch, reads.shape[2])
        new = start.new_empty(room, batch, width) if gate else states
        gated = gate.kept_by_steps(new) if gate else start.new_empty(0)
        views = by_step(before, read, maps, *maps.split(width, 3))
        previous = start
        for step, added in enumerate(reads.unbind()):
            at = step if keep else 0
            befores = [view[0] for view in views[at]]
            afters = [*befores[1:], new[at] if gate else states[step]]
            befores[0].copy_(previous)
            for layer, (state, reading, mapped, *parts) in enumerate(views[at]):
                if drop is not None:
                    torch.mul(state, drop, out=reading)
                elif separate:
                    reading.copy_(state)
                torch.add(products[layer](reading), biases[layer - 1] if layer else added, out=mapped)
                micro_layer(state, parts, out=afters[layer])
            if gate:
                gate.step(previous, new[at], drop, gated[at], out=states[step])
            previous = states[step]
        return states, before, read, maps, new, gated

    def _backward(
        self,
        precision: torch.dtype,
        d_states: Tensor,
        d_last: Tensor,
        start: Tensor,
        drop: Tensor | None,
        *rest: Tensor,
    ) -> tuple[Tensor, ...]:
        """Return the gradients of reads, start, matrices, biases and the gate's parameters.

        d_last (B, D): the part of the last state's gradient that comes from the steps after this segment.
        """
        states, before, read, maps, new, gated = rest[:6]
        weights, _, of_gate = self._parts(rest[6:])
        length, batch, width = states.shape
        gate = steps_of(self.gate, of_gate, precision, batch)
        products = [prepared(weight.to(precision).t(), batch) for weight in weights]
        d_maps = torch.empty_like(maps, dtype=precision)
        d_gated = torch.empty_like(states)
        views = by_step(before, d_maps, *maps.split(width, 3), *d_maps.split(width, 3))
        ds = d_last
        for step in reversed(range(length)):
            ds = ds + d_states[step]
            if gate:
                previous = states[step - 1] if step else start
                d_previous, ds = gate.step_back(ds, previous, new[step], drop, gated[step], d_gated[step])
            for product, (state, d_both, *parts) in zip(reversed(products), reversed(views[step]), strict=True):
                count = len(parts) // 2
                through = micro_layer_back(ds, state, parts[:count], parts[count:])
                read_gave = product(d_both).to(ds.dtype)
                ds = through.add_(read_gave) if drop is None else through.addcmul_(read_gave, drop)
            if gate:
                ds = ds + d_previous
        rows, columns = d_maps.flatten(1, 2), read.flatten(1, 2)
        d_weights = [(rows[layer].t() @ columns[layer]).to(ds.dtype) for layer in range(self.depth)]
        d_biases = d_maps[1:].sum((1, 2), dtype=ds.dtype)
        d_gate: Sequence[Tensor] = ()
        if gate:
            d_gate = gate.parameters_back(torch.cat([start[None], states[:-1]]), new, drop, d_gated)
        return d_maps[0].to(ds.dtype), ds, *d_weights, *d_biases, *d_gate

    def _parts(self, parameters: Sequence[Tensor]) -> tuple[Sequence[Tensor], ...]:
        """Split the parameters into matrices, biases, and the gate's parameters."""
        biases = 2 * self.depth - 1
        return parameters[: self.depth], parameters[self.depth : biases], parameters[biases:]


class Window(torch.autograd.Function):
    """Compute all steps of a window. The arguments after drop are matrices, biases and the gate's parameters."""

    @staticmethod
    def forward(
        ctx: Any,
        loop: Loop,
        precision: torch.dtype,
        learns: bool,
        reads: Tensor,
        start: Tensor,
        drop: Tensor | None,
        *parameters: Tensor,
    ) -> Tensor:
        keep = learns and loop.recompute_every is None
        with without_autocast(reads):
            states, *kept = loop.run("kept" if keep else "forward", precision, reads, start, drop, *parameters)
        if learns:
            ctx.loop, ctx.precision, ctx.count = loop, precision, len(kept)
            ctx.save_for_backward(reads, start, drop, states, *kept, *parameters)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        loop: Loop = ctx.loop
        reads, start, drop, states, *rest = ctx.saved_tensors
        kept, parameters = rest[: ctx.count], rest[ctx.count :]
        d_states, ds = gradients[0], torch.zeros_like(start)
        d_reads: list[Tensor] = []
        sums: list[Tensor] = []
        for part in reversed(loop.segments(len(states))):
            first = states[part.start - 1] if part.start else start
            if not ctx.count:
                _, *kept = loop.run("kept", ctx.precision, reads[part], first, drop, *parameters)
            given = (d_states[part], ds, first, drop, states[part], *kept, *parameters)
            computed = loop.run("backward", ctx.precision, *given)
            d_reads.insert(0, computed[0])
            ds = computed[1]
            sums = (
                [total + other for total, other in zip(sums, computed[2:], strict=True)] if sums else list(computed[2:])
            )
        return None, None, None, torch.cat(d_reads), ds, None, *sums


def micro_layer(state: Tensor, maps: Sequence[Tensor], out: Tensor) -> None:
    """Apply the activations of h, t and, if uncoupled, c to `maps` in place; write the next state to out (B, D)."""
    h, t, *c = maps
    h.tanh_()
    for part in (t, *c):
        part.sigmoid_()
    if c:
        torch.mul(h, t, out=out).addcmul_(state, c[0])
    else:
        torch.lerp(state, h, t, out=out)


def micro_layer_back(ds: Tensor, state: Tensor, maps: Sequence[Tensor], d_maps: Sequence[Tensor]) -> Tensor:
    """Fill d_maps, the gradients of the maps; return the gradient of the state, without the part through the maps."""
    (h, t, *c), (d_h, d_t, *d_c) = maps, d_maps
    of_new = ds * t
    tanh_backward(of_new, h, grad_input=d_h)
    if c:
        sigmoid_backward(ds * h, t, grad_input=d_t)
        sigmoid_backward(ds * state, c[0], grad_input=d_c[0])
        return ds * c[0]
    sigmoid_backward((h - state).mul_(ds), t, grad_input=d_t)
    return ds - of_new


def by_step(*wholes: Tensor) -> list[list[tuple[Tensor, ...]]]:
    """Return views of tensors (L, T, ...), by step and micro-layer. `unbind` makes them at once, which saves time."""
    views = [[of_layer.unbind() for of_layer in whole.unbind()] for whole in wholes]
    return [
        [tuple(view[layer][step] for view in views) for layer in range(len(views[0]))]
        for step in range(len(views[0][0]))
    ]


def without_autocast(like: Tensor) -> Any:
    """Turn autocast off: the loop chooses its own precision. The meta device, for counting, has no autocast."""
    return nullcontext() if like.is_meta else torch.autocast(like.device.type, enabled=False)
