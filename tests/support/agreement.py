"""Compare the same ten training steps on two devices, and bound their differences.

Both devices get the same weights, the same batches and no dropout. Three numbers are compared, each relative to the
reference, fp32 on the CPU: the loss of the first step, the first gradient (norm of the difference over norm), and the
loss of the ten that differs most. Sums in another order differ in their last digits, so the bounds depend on the
precision: an fp32 operand has 24 significant bits, TF32 11, bf16 8. They were measured over rows of every family
(docs/LOG.md). Each bound is three to ten times the largest difference found, without gradients that jump and LSTMs of
several layers in bf16.

A gradient jumps, by a thousand times the rounding, where the input of a ReLU is so close to zero that rounding changes
its sign. Therefore it is computed for three batches, and the middle one of their differences counts.
"""

import gc
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, fields
from typing import Any

import torch
from pytorch_lightning.utilities import move_data_to_device
from torch import Tensor

from highway.config.compose import experiment
from highway.config.experiment import Experiment
from highway.models import rhn
from highway.run import build
from highway.run.compiled import compile_training
from highway.tables.reading import load_table
from highway.tasks.task import Task

STEPS, BATCHES = 10, 3


@dataclass(frozen=True)
class Apart:
    """The relative differences between two traces, or bounds on them."""

    first_loss: float
    gradient: float
    later_loss: float

    def within(self, bound: "Apart") -> bool:
        return all(getattr(self, item.name) <= getattr(bound, item.name) for item in fields(self))

    def __str__(self) -> str:
        return f"{self.first_loss:.1e} {self.gradient:.1e} {self.later_loss:.1e}"


BOUNDS = {"32": Apart(1e-6, 2e-5, 1e-3), "tf32": Apart(2e-4, 5e-2, 5e-2), "bf16": Apart(2e-3, 2e-1, 5e-2)}


@dataclass(frozen=True)
class Trace:
    """The losses of some steps, and the first gradient for each of some batches."""

    losses: list[float]
    gradients: Sequence[Tensor]  # of one step on each of some batches: all parameters, in fp64 on the CPU

    def apart(self, reference: "Trace") -> Apart:
        differences = [abs(a - b) / abs(b) for a, b in zip(self.losses, reference.losses, strict=True)]
        pairs = zip(self.gradients, reference.gradients, strict=True)
        gradients = [float((ours - theirs).norm() / theirs.norm()) for ours, theirs in pairs]
        gradient = math.nan if any(map(math.isnan, gradients)) else statistics.median(gradients)
        return Apart(differences[0], gradient, max(differences, key=lambda value: (value != value, value)))


def row(table_id: str, row_id: str) -> Experiment:
    """Return a row at smoke budget, on generated data, without dropout."""
    table = load_table(table_id)
    overrides = table.overrides(table.row(row_id), "smoke", seed=1)
    return without_dropout(experiment([*overrides, "dataset.source=sample"]))


def without_dropout(described: Experiment) -> Experiment:
    rates = {name: 0.0 for name in type(described.model).model_fields if name.startswith("dropout")}
    return described.model_copy(update={"model": described.model.model_copy(update=rates)})


def trace(described: Experiment, device: str, precision: str, steps: int = STEPS) -> Trace:
    """Train some steps on one batch, and one step on each of two others; precision: 32, tf32 or bf16."""
    torch.manual_seed(0)
    batches = [build.like_real(described, "cpu") for _ in range(BATCHES)]
    with computing_in(precision, device):
        first = _trace_of(described, device, precision, batches[:1] * steps)
        others = [_trace_of(described, device, precision, [batch]) for batch in batches[1:]]
    return Trace(first.losses, [gradient for each in (first, *others) for gradient in each.gradients])


def _trace_of(described: Experiment, device: str, precision: str, batches: list[Any]) -> Trace:
    """Build the model from seed 0 and train one step on each batch."""
    gc.collect()  # a CUDA graph that is collected while another is recorded would break that one
    torch.manual_seed(0)
    task = build.task(described).to(device).train()
    return train(task, batches, 0, torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"))


def train(task: Task, batches: Iterable[Any], traced: int, forward: AbstractContextManager[Any] | None = None) -> Trace:
    """Train one step on each batch, its forward pass in the given context; keep the gradient of step `traced`."""
    optimizer = task.configure_optimizers()
    losses, gradient = [], torch.empty(0)
    for step, batch in enumerate(batches):
        optimizer.zero_grad()
        with forward or nullcontext():
            objective = task.learn(move_data_to_device(batch, task.device)).objective
        objective.backward()
        if step == traced:
            gradients = [parameter.grad for parameter in task.parameters() if parameter.grad is not None]
            gradient = torch.cat([part.flatten().double().cpu() for part in gradients])
        task.prepare_gradients()
        optimizer.step()
        losses.append(objective.item())
    return Trace(losses, [gradient])


@contextmanager
def computing_in(precision: str, device: str) -> Iterator[None]:
    """Allow TF32 in products, convolutions and cuDNN only for `tf32`; a CPU has none."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    if device == "cuda":
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        if device == "cuda":
            torch.set_float32_matmul_precision(before[0])
            torch.backends.cudnn.allow_tf32 = before[1]


def disagreements(described: Experiment, device: str, steps: int = STEPS) -> dict[str, Apart]:
    """Compare a device with fp32 on the CPU. Return the differences out of bounds, by precision."""
    reference = trace(described, "cpu", "32", steps)
    differences = {precision: trace(described, device, precision, steps).apart(reference) for precision in BOUNDS}
    return {precision: apart for precision, apart in differences.items() if not apart.within(BOUNDS[precision])}


def steps_of(described: Experiment, device: str, compiled: str | None = None, in_graphs: bool = True) -> Trace:
    """Train ten steps on ten batches, carrying the state; in_graphs: CUDA graphs may record the recurrent loops."""
    gc.collect()  # as above
    torch.manual_seed(0)
    batches = [build.like_real(described, "cpu") for _ in range(STEPS)]
    task = build.task(described).to(device).train()
    for module in task.modules():
        if isinstance(module, rhn.Layer):
            module.loop.in_graphs = in_graphs
    if compiled:
        compile_training(task, described, compiled)
    return train(task, batches, traced=1)  # the first step that continues from a state
