"""A function of tensors that is captured as a CUDA graph on its first call for given shapes, and replayed later.

A replay launches thousands of small kernels at the cost of one launch. The graph has its own tensors: a call copies its
arguments into them and returns copies of the outputs, so no call sees the tensors of another. The function must read no
tensors other than its arguments.

torch.cuda.make_graphed_callables does not fit here. Its callables share one set of output tensors, so a second forward
pass before the backward pass overwrites the first output. Following a gradient over 100 steps calls the same loop 101
times (highway/tasks/recurrent_figures.py). It also fixes one shape and whether gradients are needed, and it accepts
only tensors. These loops run with several shapes, with and without gradients, and with None as the dropout mask.
"""

from collections.abc import Callable, Hashable

import torch
from torch import Tensor

Given = tuple[Tensor | None, ...]


class Captured:
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
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):  # libraries allocate their workspaces on the first calls
                self.function(*inputs)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            outputs = self.function(*inputs)
        return graph, inputs, outputs
