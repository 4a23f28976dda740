"""Kernels for the time loop of a recurrent highway network.

On a CPU, matrices are packed once. On a GPU, elementwise functions are compiled, and the loop is a CUDA graph.
"""

import os
import shutil
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

Given = tuple[Tensor | None, ...]


def packed_linear(matrix: Tensor, rows: int) -> Callable[[Tensor], Tensor]:
    """Return the function x (rows, I) -> x matrix^T (rows, O) for a matrix (O, I).

    The general product on a CPU packs the matrix at each call. With 20 rows, packing costs as much as the product
    itself. oneDNN can pack the matrix once for all calls, which makes a step of hsg_t1 1.4 times as fast.
    """
    if rows > 1 and matrix.device.type == "cpu" and matrix.dtype == torch.float32 and can_pack():
        packed = torch.ops.mkldnn._reorder_linear_weight(matrix.contiguous(), rows)
        return lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")
    columns = matrix.t().contiguous()
    return lambda x: x @ columns


@cache
def can_pack() -> bool:
    """Return True if this torch has the private oneDNN operators of `packed_linear`, found by trying them.

    Without them the products are the same but for their last bits.
    """
    if not torch.backends.mkldnn.is_available() or not torch.backends.mkldnn.enabled:
        return False
    matrix = torch.zeros(32, 32, device="cpu")
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(matrix, 4)
        torch.ops.mkldnn._linear_pointwise(matrix[:4], packed, None, "none", [], "")
    except (AttributeError, RuntimeError):  # another version of torch, or another kind of processor
        return False
    return True


def precision_of_products(like: Tensor) -> torch.dtype:
    """Return autocast's precision on CUDA. On a CPU the loop ignores autocast, because oneDNN packs only fp32."""
    on = like.device.type == "cuda" and torch.is_autocast_enabled("cuda")
    return torch.get_autocast_dtype("cuda") if on else like.dtype


def without_autocast(like: Tensor) -> Any:
    """Turn autocast off: the loop chooses its own precision. The meta device, for counting, has no autocast."""
    return nullcontext() if like.is_meta else torch.autocast(like.device.type, enabled=False)


def by_step(*wholes: Tensor) -> list[list[tuple[Tensor, ...]]]:
    """Return views of tensors (L, T, ...), by step and micro-layer. `unbind` makes them at once, which saves time."""
    views = [[of_layer.unbind() for of_layer in whole.unbind()] for whole in wholes]
    return [
        [tuple(view[layer][step] for view in views) for layer in range(len(views[0]))]
        for step in range(len(views[0][0]))
    ]


def fused(function: Callable[..., Any], like: Tensor) -> Callable[..., Any]:
    """Return a function of elementwise operations, compiled into one or two kernels on CUDA, unchanged elsewhere.

    It is compiled once for all steps and micro-layers: views at other offsets of one tensor need no other program, but
    other shapes, dtypes or absent arguments do. Those beyond eight (torch's recompile_limit) run uncompiled.
    """
    return _compiled(function) if like.is_cuda and can_compile() else function


@cache
def can_compile() -> bool:
    """Return whether torch.compile works for this GPU: it needs Triton, a GPU that Triton knows, and a C compiler."""
    has_compiler = os.environ.get("CC") or any(map(shutil.which, ("gcc", "clang", "cc")))
    return bool(has_compiler and find_spec("triton")) and torch.cuda.get_device_capability() >= (7, 0)


@cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, dynamic=False)


class Captured:
    """A function of tensors that is captured as a CUDA graph on its first call for given shapes, and replayed later.

    A replay launches thousands of small kernels at the cost of one launch. The graph has its own tensors: a call copies
    its arguments into them and returns copies of the outputs, so no call sees the tensors of another. The function must
    read no tensors other than its arguments.

    torch.cuda.make_graphed_callables does not fit here. Its callables share one set of output tensors, so a second
    forward pass before the backward pass overwrites the first output. Following a gradient over 100 steps calls the
    same loop 101 times (highway/tasks/recurrent_figures.py). It also fixes one shape and whether gradients are needed,
    and it accepts only tensors. These loops run with several shapes, with and without gradients, and with None as the
    dropout mask.
    """

    def __init__(self, function: Callable[..., tuple[Tensor, ...]]) -> None:
        self.function = function
        self.recorded: dict[Hashable, tuple[torch.cuda.CUDAGraph, Given, tuple[Tensor, ...]]] = {}

    def __call__(self, *given: Tensor | None) -> tuple[Tensor, ...]:
        key = tuple(None if tensor is None else (tensor.shape, tensor.dtype) for tensor in given)
        if key not in self.recorded:
            self.recorded[key] = self._record(given)
        graph, inputs, outputs = self.recorded[key]
        for held, tensor in zip(inputs, given, strict=True):
            if held is not None and tensor is not None:
                held.copy_(tensor)
        graph.replay()
        return tuple(output.clone() for output in outputs)

    @torch.inference_mode(False)
    @torch.no_grad()
    def _record(self, given: Given) -> tuple[torch.cuda.CUDAGraph, Given, tuple[Tensor, ...]]:
        inputs = tuple(None if tensor is None else tensor.detach().clone() for tensor in given)
        side_stream = torch.cuda.Stream()
        side_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side_stream):
            for _ in range(3):  # the first calls compile, and libraries allocate
                self.function(*inputs)
        torch.cuda.current_stream().wait_stream(side_stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            outputs = self.function(*inputs)
        return graph, inputs, outputs
