"""Compile training steps with torch.compile, for one fixed shape of batch.

On a GPU this is the default, because launching the kernels of a small model takes longer than computing them.

The forward pass of a full training batch is compiled, once. Everything else runs eagerly: a shorter last window or
batch, the first window of an epoch (which has no state to continue from), evaluation and decoding. Compiled and eager
passes compute the same function of weights and batch, so nothing is padded and nothing is compiled a second time. In a
run that is compiled, the batch alone decides whether a step is, so a resumed run decides the same. If lengths vary from
batch to batch (translation, music), one program with symbolic sizes serves all of them.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from highway.blocks.kernels import can_compile
from highway.cards.card import loaded
from highway.cards.models import RHN
from highway.config.experiment import Experiment
from highway.config.trainer import CUDA_GRAPH_MODES
from highway.data.batches import lanes_of
from highway.errors import Refused
from highway.models import rhn
from highway.models.backbone import mapped
from highway.run import build
from highway.tasks.task import Task

WARNINGS_OF_THE_COMPILER = (  # caused by the compiler's own tracing
    "The .grad attribute of a Tensor that is not a leaf",
    ".*torch.autograd.function.Function'> should not be instantiated",
)
WORTH_COMPILING = 5_000  # updates: on an H200 each saved 4 to 19 ms, and compiling has to be paid from that


def mode_of(experiment: Experiment, device: str, steps: float = math.inf) -> str | None:
    """Return the mode in which a run of so many updates is compiled on a device; None: not at all."""
    trainer = experiment.trainer
    one_shape = not lengths_vary(experiment) and trainer.accumulate == 1
    plain = device == "cuda" and trainer.processes == 1 and not experiment.debug.anomaly
    if trainer.compile == "whole" and not (plain and one_shape and experiment.callback.name == "none"):
        raise Refused(
            "trainer.compile=whole needs one GPU, batches of one shape, and neither callback=... nor debug.anomaly. "
            "Type trainer.compile=auto."
        )
    if trainer.compile != "auto":
        return trainer.compile
    has_own_graph = isinstance(experiment.model, RHN)  # of its loop
    if not plain or has_own_graph or steps < WORTH_COMPILING or not can_compile():
        return None
    return "reduce-overhead" if one_shape else "default"


def lengths_vary(experiment: Experiment) -> bool:
    """Return whether training batches differ in length."""
    return bool(loaded(experiment.task_card.code).lengths_vary)


def compile_training(task: Task, experiment: Experiment, mode: str, rank: int = 0, processes: int = 1) -> None:
    """Compile the forward pass of a task's model in this mode, in place, so names in checkpoints stay the same."""
    for message in WARNINGS_OF_THE_COMPILER:
        warnings.filterwarnings("ignore", message)
    shape = None if task.lengths_vary else full_shape(experiment, rank, processes)
    for module in task.model.modules():
        if isinstance(module, rhn.Layer):  # unrolled, its thousands of kernels would take minutes to compile
            module.loop = torch.compiler.disable(module.loop.__call__)
    mode = "default" if mode == "whole" else mode  # the graph around it is in highway/run/whole.py
    task.replays = mode in CUDA_GRAPH_MODES
    task.model.forward = FixedShapes(task.model, mode, shape, carries_state(experiment))


def carries_state(experiment: Experiment) -> bool:
    """Return whether an update continues from the state that the one before it left."""
    return bool(getattr(experiment.dataset, "carry_state", False))


def full_shape(experiment: Experiment, rank: int = 0, processes: int = 1) -> torch.Size:
    """Return the shape of the model's input on this device, for a full batch or the first of its parts."""
    first = build.like_real(experiment, "meta")[0]
    share = first[lanes_of(len(first), rank, processes)]
    return share[lanes_of(len(share), 0, experiment.trainer.accumulate)].shape


class FixedShapes:
    """A model's forward pass: compiled for training batches of one shape, eager for everything else.

    shape: shape of the first argument. None allows every shape in which the first two sizes of each tensor are above 1,
        because torch compiles sizes 0 and 1 separately.
    carries: True if the model continues from a state. A call without a state is another program and runs eagerly.
    """

    def __init__(self, model: Any, mode: str, shape: torch.Size | None, carries: bool) -> None:
        self.model, self.shape, self.carries = model, shape, carries
        self.eager: Callable[..., Any] = model.forward
        self.in_graphs = mode in CUDA_GRAPH_MODES
        self.compiled = self.compile(mode, dynamic=shape is None)
        self.prepared = False

    def compile(self, mode: str, dynamic: bool) -> Callable[..., Any]:
        return torch.compile(self.eager, mode=mode, dynamic=dynamic)

    def __call__(self, *given: Any) -> Any:
        if not self.fits(*given):
            return self.eager(*given)
        if not self.prepared:
            self._prepare(*given)
        outputs = self.compiled(*given)
        if not self.in_graphs or isinstance(outputs, Tensor):
            return outputs
        features, state = outputs  # the graph's next replay overwrites its outputs, but the state outlives the step
        return features, mapped(Tensor.clone, state)

    @torch.no_grad()
    def _prepare(self, *given: Any) -> None:
        """Run eagerly once, so that tables of positions have their full length before they are compiled in."""
        devices = [first.device] if (first := given[0]).is_cuda else []
        with torch.random.fork_rng(devices):
            self.eager(*given)
        self.prepared = True

    def fits(self, first: Tensor, *rest: Any) -> bool:
        if not (self.model.training and torch.is_grad_enabled()):
            return False
        if self.carries and (not rest or rest[0] is None):
            return False
        if self.shape is not None:
            return first.shape == self.shape
        tensors = [first, *(argument for argument in rest if isinstance(argument, Tensor))]
        return all(size > 1 for tensor in tensors for size in tensor.shape[:2])
