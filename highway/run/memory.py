"""Count the memory that a training step needs, beforehand on tensors without storage, and the memory that is free."""

import contextlib
import logging
import os
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from highway.config.experiment import Experiment
from highway.config.models import Remembers
from highway.run.trial import Entry

log = logging.getLogger("highway")
MIB = 2**20
UNLIMITED = 1 << 60  # bytes; version 1 of control groups writes a number near 2^63 if there is no limit
COUNTED: dict[str, "Needs"] = {}  # shape -> its needs, as counted in this process
STEPS = 10  # time steps counted of a window that is read step by step: others are alike, and counting is slow


class PeakBytes(TorchDispatchMode):
    """A mode that counts the bytes of the tensors that operations in it create: those alive now, and their peak."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, Any] = {}  # a storage's address -> a weak reference to it
        self.now = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._watch(tensor)
        return result

    def start(self) -> None:
        """Start to count. Tensors that are alive already do not count."""
        self.now = self.peak = 0

    def _watch(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata not in self.alive:
            size = storage.nbytes()
            self.alive[storage._cdata] = weakref.ref(storage, partial(self._freed, storage._cdata, size))
            self.now += size
            self.peak = max(self.peak, self.now)

    def _freed(self, address: int, size: int, _: Any) -> None:
        del self.alive[address]
        self.now -= size


@dataclass(frozen=True)
class Needs:
    """The bytes that a training process needs beyond those of Python and its libraries."""

    weights: int
    kept: int  # what the optimiser keeps between steps
    step: int  # peak during a step: activations, and at the end the gradients
    rows: int  # number of rows of a training batch

    def total(self, parts: int = 1) -> float:
        """Return the bytes if the rows of a batch are divided into this number of parts."""
        return self.held + max(self.step - self.weights, 0) / parts

    @property
    def held(self) -> int:
        """Return the bytes that stay between steps: weights, gradients and the optimiser's state."""
        return 2 * self.weights + self.kept


def needs(entry: Entry) -> Needs:
    """Count the memory that a training step of a contender needs. A step in bf16 is counted as in fp32.

    It needs less in bf16, by an amount that depends on the model, but the meta device has no autocast to count it with.
    """
    entry = replace(entry, device="meta", compiled=None)
    batch = entry.batch()
    length = batch[0].shape[1]
    if entry.shape.remembers is Remembers.STATE and length > STEPS and not getattr(batch, "context", 0):
        peak, kept, parameters = _counted(entry, first_steps(batch, STEPS))
        peak_of_half, kept_of_half, _ = _counted(entry, first_steps(batch, STEPS // 2))
        # Gradients of weights may dominate the peak. They do not grow with the steps; what the forward pass keeps does
        growth = max(peak - peak_of_half, kept - kept_of_half)
        step = peak + growth * (length - STEPS) / (STEPS - STEPS // 2)
    else:
        step, _, parameters = _counted(entry, batch)
    wide = 2 if entry.precision == "64" else 1
    weights = wide * 4 * parameters
    return Needs(weights, kept_by_optimiser(entry.shape, weights), round(wide * step), len(batch[0]))


def _counted(entry: Entry, batch: Any) -> tuple[float, int, int]:
    """Return the peak bytes of a step, the bytes after its forward pass (both without weights), and the parameters."""
    with torch.device("meta"), PeakBytes() as counted:
        contender = entry.build()
        counted.start()
        objective = contender.objective(batch)
        kept = counted.now
        objective.backward()
    return counted.peak, kept, contender.parameters


def first_steps(batch: Any, steps: int) -> Any:
    """Return the first time steps of a batch, whose tensors have the shape (batch, time, ...)."""
    return type(batch)(*(part[:, :steps] if isinstance(part, Tensor) and part.dim() > 1 else part for part in batch))


def of_a_run(described: Experiment) -> Needs:
    """Return the memory that a run needs. A process that trains the same shape several times counts it once."""
    parts = (described.model, described.gate, described.layers, described.dataset, described.optimizer)
    shape = repr((*parts, described.trainer.precision))
    if shape not in COUNTED:
        COUNTED[shape] = needs(Entry(described.trainer.precision, described, "meta"))
    return COUNTED[shape]


def kept_by_optimiser(described: Experiment, weights: int) -> int:
    return 2 * weights if described.optimizer.name == "adam" else 0


def check(described: Experiment) -> bool:
    """Warn if a training step may need more memory than is free. Return whether memory is ample, or unknown.

    Ample means twice what a step needs, because freed blocks that are kept for the next step do not fit every size.
    The run continues in any case: the count may be wrong by a third, and other processes may end meanwhile.
    """
    device = device_of(described)
    free = free_bytes(device)
    if free is None:
        return True
    try:
        needed = of_a_run(described)
    except (NotImplementedError, RuntimeError):  # a user's model may read values, which meta tensors do not have
        return True
    if sentence := shortage(needed, described, device, free):
        warn(sentence)
    return 2 * taken(needed, described, device) <= free


def check_together(entries: Sequence[Entry]) -> bool:
    """Do what `check` does, for rows that one process holds together and trains in turn, as a timing does."""
    device = entries[0].device
    free = free_bytes(device)
    if free is None:
        return True
    several = [needs(entry) for entry in entries]
    held = sum(needed.held for needed in several)
    size = held + max(needed.total() - needed.held for needed in several)
    if size > free:
        warn(
            f"The rows of this timing need about {size / MIB:,.0f} MiB of memory together, and {free / MIB:,.0f} MiB "
            "are free here: free some memory, or use a larger machine."
        )
    return 2 * sum(needed.total() for needed in several) <= free


def warn(sentence: str) -> None:
    if os.environ.get("HIGHWAY_CAUTIONS") != "off":
        log.warning("%s", sentence)


def device_of(described: Experiment) -> str:
    return "cuda" if torch.cuda.is_available() and described.trainer.accelerator != "cpu" else "cpu"


def taken(needed: Needs, described: Experiment, device: str, parts: int | None = None) -> float:
    """Return the bytes that a run needs on one GPU, or on the CPU of one machine for all its processes together."""
    settings = described.trainer
    each = needed.total((parts or settings.accumulate) * settings.processes)
    return each * (settings.devices if device == "cpu" else 1)


def shortage(needed: Needs, described: Experiment, device: str, free: int, who: str = "A training step") -> str:
    """Return a sentence if a run may need more memory than is free, with what to type; empty if it fits."""
    size = taken(needed, described, device)
    if size <= free:
        return ""
    upper = " at the most" if described.trainer.precision == "bf16" else ""
    first = f"{who} needs about {size / MIB:,.0f} MiB of memory{upper}, and {free / MIB:,.0f} MiB are free here:"
    now, most = described.trainer.accumulate, max(needed.rows // described.trainer.processes, 1)
    fitting = (parts for parts in range(now + 1, most + 1) if taken(needed, described, device, parts) <= free)
    if parts := next(fitting, None):
        less = taken(needed, described, device, parts) / MIB
        return f"{first} type trainer.accumulate={parts} to take each batch in {parts} parts (about {less:,.0f} MiB)."
    least = taken(needed, described, device, most) / MIB
    row_by_row = f"trainer.accumulate={most} takes the batch row by row and still needs about {least:,.0f} MiB"
    return f"{first} free some memory, or use a larger machine ({row_by_row})."


def free_bytes(device: str, root: Path = Path("/")) -> int | None:
    """Return the bytes that a process may still take on a `cuda` or `cpu` device; None if the system does not tell.

    On a CPU, that is the memory that the machine has left, or this process's control group if that has less.
    """
    if device == "cuda":
        return torch.cuda.mem_get_info()[0]
    return min([*_of_the_machine(root), *_of_control_groups(root)], default=None)


def _of_the_machine(root: Path) -> Iterator[int]:
    """Yield the bytes that Linux estimates as available; elsewhere the free pages, if the system states them."""
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        yield next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        with contextlib.suppress(AttributeError, ValueError, OSError):  # Windows, macOS
            yield os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_control_groups(root: Path) -> Iterator[int]:
    """Yield the bytes left below each limit that a cluster or container sets for this process (cgroup v1 or v2)."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount, limit, used, reclaimed = "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            mount, limit, used = "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            reclaimed = "total_inactive_file"
        else:
            continue
        group = root / mount / path.lstrip("/")
        for folder in (group, *group.parents):
            with contextlib.suppress(OSError, ValueError):  # no such group, or `max`: no limit
                most = int((folder / limit).read_text())
                left = most - int((folder / used).read_text()) + _stated(folder / "memory.stat", reclaimed)
                if most < UNLIMITED:
                    yield max(left, 0)
            if folder == root / mount:
                break


def _stated(path: Path, name: str) -> int:
    """Return the number of this name in a file of `name number` lines; 0 if it is missing."""
    lines = (line.split() for line in path.read_text().splitlines())
    return next((int(number) for word, number in lines if word == name), 0)
