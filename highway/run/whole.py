"""trainer.compile=whole: an update as one CUDA graph, from the batch to the changed weights.

Launching the kernels of a small model takes longer than computing them. A graph launches all of an update at once: the
forward pass (compiled as in mode `default`), loss, backward pass, weight decay, clipping and the optimiser. It reads
the batch, the carried state and the learning rate from tensors of its own, and the random seed from the generator,
where each replay looks anew. So it computes what the same update computes without a graph, dropout included, but for
the learning rate, which it has in fp32.

Some updates run without the graph: those of another shape, the first of an epoch (it has no state to continue from),
and those whose gradient a row of the curve shows. In the others, no hook between the forward pass and the optimiser
runs, and Python in `learn` ran only when the graph was recorded.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from highway.errors import Refused
from highway.models.backbone import flattened, mapped
from highway.run.compiled import carries_state, full_shape
from highway.tasks.task import Task

WARM_UP = 3  # updates before the recording, in which kernels are compiled and libraries allocate their workspaces
Update = Callable[[], None]


class WholeUpdates:
    """The updates of a task that a graph runs. optimizer: returns the task's optimiser, which a trainer builds late."""

    def __init__(self, task: Task, optimizer: Callable[[], torch.optim.Optimizer]) -> None:
        self.task, self.optimizer = task, optimizer
        self.carries, self.shape = carries_state(task.experiment), full_shape(task.experiment)
        self.batch: Any = None  # what the graph reads
        self.count = 0  # updates so far

    def fits(self, batch: Any) -> bool:
        """Return whether an update has the shapes of the graph, and a state if it needs one."""
        if batch[0].shape != self.shape or (self.carries and self.task.states[0] is None):
            return False
        return self.batch is None or all(map(_alike, batch, self.batch))

    def __call__(self, batch: Any) -> dict[str, Tensor]:
        """Run an update; return the nats and the number of scored positions."""
        if self.batch is None:
            self._allocate(batch)
        _copy(batch, self.batch)
        _copy(flattened(self.task.states[0]), flattened(self.state))
        self.rate.fill_(self.optimizer().param_groups[0]["lr"])
        self.count += 1
        if self.count <= WARM_UP:
            self.aside(self._update)
        else:
            if self.count == WARM_UP + 1:
                self.replay = self.record(self._update)
            self.replay()
        self.task.states[0] = self.state
        return {"nats": self.nats, "scored": self.scored}

    def _allocate(self, batch: Any) -> None:
        """Make the tensors that the graph reads and writes."""
        if not all(group.get("fused") for group in self.optimizer().param_groups):
            name = self.task.experiment.optimizer.name
            raise Refused(f"trainer.compile=whole cannot run optimizer.name={name}. Type trainer.compile=auto.")
        self.batch = type(batch)(*(part.clone() if isinstance(part, Tensor) else part for part in batch))
        self.state = mapped(Tensor.clone, self.task.states[0])
        self.rate = torch.zeros((), dtype=torch.float32, device=self.task.device)
        self.nats, self.scored = torch.zeros(2, dtype=torch.float64, device=self.task.device)

    def _update(self) -> None:
        """Compute an update on the graph's tensors."""
        task, optimizer, device = self.task, self.optimizer(), self.task.device.type
        task.states[0] = self.state
        learnt = task.learn(self.batch)
        with torch.autocast(device, enabled=False):
            learnt.objective.backward()
            task.prepare_gradients()
            with _changed(optimizer.param_groups, lr=self.rate, capturable=self.count > WARM_UP):
                optimizer.step()
        optimizer.zero_grad()
        self.nats.copy_(learnt.nats.detach())
        self.scored.fill_(learnt.scored)
        _copy(flattened(task.states[0]), flattened(self.state))

    def aside(self, update: Update) -> None:
        """Run an update on another stream, as a recording will."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            update()
        torch.cuda.current_stream().wait_stream(stream)

    def record(self, update: Update) -> Update:
        """Record an update without running it; return what runs it."""
        gc.collect()  # what is collected during a recording breaks it
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            update()
        return graph.replay


@contextmanager
def _changed(groups: list[dict[str, Any]], **values: Any) -> Iterator[None]:
    """Set these values in an optimiser's groups, in so far as they have them, during the block."""
    before = [{key: group[key] for key in values if key in group} for group in groups]
    for group, own in zip(groups, before, strict=True):
        group |= {key: values[key] for key in own}
    yield
    for group, own in zip(groups, before, strict=True):
        group |= own


def _alike(one: Any, another: Any) -> bool:
    return one.shape == another.shape if isinstance(one, Tensor) else bool(one == another)


def _copy(given: Any, held: Any) -> None:
    """Copy each tensor to the one in the same place, unless it is that one."""
    for source, target in zip(given, held, strict=True):
        if isinstance(target, Tensor) and source is not target:
            target.copy_(source)
