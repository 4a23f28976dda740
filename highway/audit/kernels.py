"""How many kernels a training step launches on a GPU, counted without one.

A kernel here is an ATen operator that computes: every operator that the dispatcher is given for forward pass, backward
pass, clipping and update, but for views, allocations and other changes of metadata. Most are one kernel on CUDA; some
are a few (the gradient of an embedding, a product that cuBLAS splits). The model is on the meta device, where nothing
is computed. Where CUDA takes another way than the meta device does, its way is counted: dropout is one kernel, clipping
and updates are one operator for all parameters, and RNN, GRU and LSTM without a gate are calls of cuDNN, whose kernels
cannot be known here. A recurrence that CUDA replays as a graph counts with all the kernels that the graph holds.
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

LENGTHS = (4, 8)  # windows of a step-by-step recurrence that are counted; the rest is linear in the window
METADATA = {  # operators that launch nothing, beyond views
    *("_unsafe_view", "alias", "detach", "detach_", "empty", "empty_like", "empty_strided", "lift_fresh", "new_empty"),
    *("new_empty_strided", "resize_", "transpose_", "t_", "unsqueeze_", "squeeze_", "as_strided_", "_reshape_alias"),
}
DROPOUT = ("bernoulli_", "div_")  # the meta device draws and scales apart from the product that CUDA has them in


@dataclass(frozen=True)
class Kernels:
    """The kernels of a training step; cudnn: calls of cuDNN, whose kernels are not among them."""

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
    """Count the kernels of a training step of the recipe's own batch, in fp32."""
    cut: Any = getattr(described.dataset, "train", None)
    steps = described.remembers is Remembers.STATE and cut and cut.stride == cut.window == cut.scored
    if not steps or cut.window <= max(LENGTHS) or getattr(described.model, "recompute_every", None):
        return counted(described)
    few, more = (counted(_with_window(described, length)) for length in LENGTHS)
    each, left = divmod(more.passes - few.passes, LENGTHS[1] - LENGTHS[0])
    assert not left, "every step of a recurrence launches the same kernels"
    return replace(few, passes=few.passes + each * (cut.window - LENGTHS[0]))


def counted(described: Experiment) -> Kernels:
    """Count every operator of a step, whatever its length."""
    with torch.device("meta"):
        task = build.task(described).train()
        batch = build.like_real(described, "meta")
        with cudnn_calls(task) as calls, Counting() as passes:
            task.learn(batch).objective.backward()
    learnt = [parameter for parameter in task.parameters() if parameter.grad is not None]
    return Kernels(passes.kernels, update_kernels(described, len(learnt)), len(calls))


def update_kernels(described: Experiment, parameters: int) -> int:
    """Count what follows the backward pass, on as many parameters of one element each: sizes do not matter to it."""
    small = [nn.Parameter(torch.ones(1)) for _ in range(parameters)]
    for parameter in small:
        parameter.grad = torch.ones(1)
    optimizer = build_optimizer(small, described.optimizer)
    optimizer.step()  # the first step also makes what Adam keeps
    with Counting() as counting:
        prepare_gradients(small, described.optimizer, foreach=True)
        optimizer.step()
    return counting.kernels


@contextmanager
def cudnn_calls(task: nn.Module) -> Iterator[list[str]]:
    """Put a stand-in for each of torch's recurrent kernels; yield the list of their calls, forward and backward."""
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
    """A library's call: outputs and gradients of the right shape, and a note that it was called."""

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
