"""The cost of a row, counted on the meta device: parameters, operations, and memory kept for the backward pass."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from highway.config.experiment import Experiment
from highway.config.models import Remembers
from highway.describe import parameter_counts
from highway.run import build


@dataclass(frozen=True)
class Cost:
    parameters: int
    of_gates: int
    without_gradient: int  # parameters that get no gradient in a training step
    operations: float  # floating-point operations per token, in the products of a training step
    kept_bytes: int  # bytes of the tensors that the forward pass of a step keeps for the backward pass
    tokens: int  # tokens in a training step


STEPS = 10  # counted steps of a window that is read step by step: all steps cost the same, and counting is slow


def cost(described: Experiment) -> Cost:
    """Count the cost of a training step on the recipe's own batch, in fp32."""
    described, times = _shorter(described)
    with torch.device("meta"):
        task = build.task(described).train()
        batch = build.like_real(described, "meta")
        kept: dict[int, int] = {}
        of_parameters = {_storage(parameter) for parameter in task.parameters()}

        def keep(tensor: Tensor) -> Tensor:
            if _storage(tensor) not in of_parameters:
                kept[_storage(tensor)] = tensor.untyped_storage().nbytes()
                alive.append(tensor)  # else a later tensor could get the same storage and not be counted
            return tensor

        alive: list[Tensor] = []
        with FlopCounterMode(display=False) as counter:
            with saved_tensors_hooks(keep, lambda tensor: tensor):
                objective = task.learn(batch).objective
            objective.backward()
    counts = parameter_counts(task.model)
    return Cost(
        counts["total"],
        counts["gate"],
        sum(parameter.numel() for parameter in task.parameters() if parameter.grad is None),
        counter.get_total_flops() / task.tokens(batch),
        round(sum(kept.values()) * times),
        round(task.tokens(batch) * times),
    )


def _shorter(described: Experiment) -> tuple[Experiment, float]:
    """Shorten the window if a state is carried from step to step. Return the factor by which it is shorter, too."""
    cut = getattr(described.dataset, "train", None)
    if described.remembers is not Remembers.STATE or cut is None or cut.stride != cut.window or cut.window <= STEPS:
        return described, 1
    fewer = cut.model_copy(update={"window": STEPS, "stride": STEPS, "scored": STEPS})
    dataset = described.dataset.model_copy(update={"train": fewer})
    return described.model_copy(update={"dataset": dataset}), cut.window / STEPS


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
