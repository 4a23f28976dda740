"""The number of kernels that a training step launches on a GPU, counted without a GPU.

A kernel here is an ATen operator that computes: every operator that the dispatcher receives in forward pass, backward
pass, clipping and update, except views, allocations and other changes of metadata. On CUDA most operators are one
kernel; some are a few (the gradient of an embedding, a product that cuBLAS splits). The model is on the meta device,
where nothing is computed. Where CUDA uses other operators than the meta device, those of CUDA are counted. Dropout is
one kernel; clipping and updates are one operator for all parameters. RNN, GRU and LSTM without a gate are calls of
cuDNN, whose kernels are unknown here. A recurrence that CUDA replays as a graph counts with all kernels of the graph.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from highway.config.experiment import Experiment
from highway.config.models import Remembers
from highway.run import build
from highway.tasks.optimisation import build_optimizer, prepare_gradients

LENGTHS = (4, 8)  # window lengths at which a step-by-step recurrence is counted; the count is linear in the length
METADATA = {  # operators that launch no kernel, besides views
    *("_unsafe_view", "alias", "detach", "detach_", "empty", "empty_like", "empty_strided", "lift_fresh", "new_empty"),
    *("new_empty_strided", "resize_", "transpose_", "t_", "unsqueeze_", "squeeze_", "as_strided_", "_reshape_alias"),
}
DROPOUT = ("bernoulli_", "div_")  # the meta device draws, scales and multiplies; CUDA does all in one kernel


@dataclass(frozen=True)
class Kernels:
    """The number of kernels of a training step. `cudnn` counts calls of cuDNN, whose kernels are not included."""

    passes: int  # forward and backward
    update: int  # clipping, weight decay, the optimiser
    cudnn: int = 0

    @property
    def total(self) -> int:
        return self.passes + self.update

    def __str__(self) -> str:
        return f"{self.total:,}" + (f" + {self.cudnn} cuDNN" if self.cudnn else "")


class Counting(TorchDispatchMode):
    """Count the operators that compute, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, operator: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        name = operator.overloadpacket.__name__
        if operator.namespace != "profiler" and not operator.is_view and name not in METADATA:
            self.counts[name] += 1
        return operator(*given, **(named or {}))

    @property
    def kernels(self) -> int:
        drawn = min(self.counts[name] for name in DROPOUT)
        return self.counts.total() - len(DROPOUT) * drawn


def kernels(described: Experiment) -> Kernels:
    """Count the kernels of a training step on the recipe's own batch, in fp32."""
    cut: Any = getattr(described.dataset, "train", None)
    steps = described.remembers is Remembers.STATE and cut and cut.stride == cut.window == cut.scored
    if not steps or cut.window <= max(LENGTHS) or getattr(described.model, "recompute_every", None):
        return counted(described)
    short, long = (counted(_with_window(described, length)) for length in LENGTHS)
    each, left = divmod(long.passes - short.passes, LENGTHS[1] - LENGTHS[0])
    assert not left, "every step of a recurrence launches the same kernels"
    return replace(short, passes=short.passes + each * (cut.window - LENGTHS[0]))


def counted(described: Experiment) -> Kernels:
    """Count every operator of a training step, whatever the length of its window."""
    with torch.device("meta"):
        task = build.task(described).train()
        batch = build.like_real(described, "meta")
        with cudnn_calls(task) as calls, Counting() as passes:
            task.learn(batch).objective.backward()
    learnt = [parameter for parameter in task.parameters() if parameter.grad is not None]
    return Kernels(passes.kernels, update_kernels(described, len(learnt)), len(calls))


def update_kernels(described: Experiment, parameters: int) -> int:
    """Count the kernels after the backward pass, on `parameters` tensors of one element: their sizes do not matter."""
    small = [nn.Parameter(torch.ones(1)) for _ in range(parameters)]
    for parameter in small:
        parameter.grad = torch.ones(1)
    optimizer = build_optimizer(small, described.optimizer)
    optimizer.step()  # the first step also allocates Adam's state
    with Counting() as counting:
        prepare_gradients(small, described.optimizer, foreach=True)
        optimizer.step()
    return counting.kernels


@contextmanager
def cudnn_calls(task: nn.Module) -> Iterator[list[str]]:
    """Replace each of torch's recurrent layers by a stand-in; yield the list of their calls, forward and backward."""
    calls: list[str] = []
    kernels = [module for module in task.modules() if isinstance(module, nn.RNNBase)]
    for kernel in kernels:
        kernel.forward = _stand_in(kernel, calls)
    yield calls
    for kernel in kernels:
        del kernel.forward


def _stand_in(kernel: nn.RNNBase, calls: list[str]) -> Callable[..., Any]:
    def forward(x: Tensor, state: Any = None) -> Any:
        features, h = Opaque.apply(calls, kernel.hidden_size, x, *kernel.parameters())
        return features, (h, torch.empty_like(h)) if kernel.mode == "LSTM" else h

    return forward


class Opaque(torch.autograd.Function):
    """A stand-in for a library call: it returns outputs and gradients of the right shape, and records the call."""

    @staticmethod
    def forward(ctx: Any, calls: list[str], width: int, x: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        ctx.calls = calls
        ctx.save_for_backward(x, *parameters)
        calls.append("forward")
        return x.new_empty(*x.shape[:2], width), x.new_empty(1, x.shape[0], width)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        ctx.calls.append("backward")
        return None, None, *(torch.empty_like(tensor) for tensor in ctx.saved_tensors)


def _with_window(described: Experiment, length: int) -> Experiment:
    cut = replace(described.dataset.train, window=length, stride=length, scored=length)
    return replace(described, dataset=replace(described.dataset, train=cut))
