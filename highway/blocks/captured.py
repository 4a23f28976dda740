"""A function of tensors whose kernels are recorded on its first call, as a CUDA graph, and played back after that.

Thousands of small kernels then cost one launch. The graph has tensors of its own: what is given is copied into them,
and what comes back is copied out, so that no call sees another's. The function must read nothing else.

torch.cuda.make_graphed_callables cannot serve here. Its callables share one set of output tensors, so a second forward
pass before the backward pass overwrites what the first one gave, and following a gradient over 100 steps calls the same
loop 101 times (highway/tasks/states.py). It also fixes one shape and whether gradients are wanted, and takes tensors
only, where these loops run with several shapes, with and without gradients, and with no dropout mask.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Given = tuple[Tensor | None, ...]


class Captured:
    def __init__(self, function: Callable[..., tuple[Tensor, ...]]) -> None:
        self.function = function
        self.recorded: dict[Any, tuple[torch.cuda.CUDAGraph, Given, tuple[Tensor, ...]]] = {}

    def __call__(self, *given: Tensor | None) -> tuple[Tensor, ...]:
        key = tuple(None if tensor is None else (tensor.shape, tensor.dtype) for tensor in given)
        if key not in self.recorded:
            self.recorded[key] = self._record(given)
        graph, inputs, outputs = self.recorded[key]
        for own, tensor in zip(inputs, given, strict=True):
            if own is not None and tensor is not None:
                own.copy_(tensor)
        graph.replay()
        return tuple(output.clone() for output in outputs)

    @torch.inference_mode(False)
    @torch.no_grad()
    def _record(self, given: Given) -> tuple[torch.cuda.CUDAGraph, Given, tuple[Tensor, ...]]:
        inputs = tuple(None if tensor is None else tensor.detach().clone() for tensor in given)
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):  # libraries make their workspaces on the first calls
                self.function(*inputs)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            outputs = self.function(*inputs)
        return graph, inputs, outputs
