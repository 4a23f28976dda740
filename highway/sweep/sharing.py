"""Several runs on one GPU: how many suit it, and NVIDIA's MPS, which lets their kernels run at the same time."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from highway.config.experiment import Experiment
from highway.machine import cores, output_of
from highway.sweep.planned_run import Planned

BUSY = 4e11  # operations in one step of all runs on a GPU: an estimate of what an H200 computes in three milliseconds
ROOM = 4096  # MiB of a GPU for each run; one of highway_t3 takes 560 on an H200, beside the context of its process
CLIENTS = 48  # the most processes that MPS serves on a GPU
CONTROL = "nvidia-cuda-mps-control"


def runs_on_a_gpu(runs: Sequence[Planned], in_sweep: int, gpus: Sequence[str]) -> int:
    """Return how many runs share each GPU: as many as keep it busy, with a core and enough of its memory for each."""
    if any(run.trainer.devices > 1 for run in runs):
        return 1
    described = {repr((run.experiment.model, run.experiment.dataset)): run.experiment for run in runs}
    busy = min((int(BUSY // _operations(each)) for each in described.values()), default=1)
    return max(min(busy, -(-in_sweep // len(gpus)), cores() // len(gpus), _memory(gpus) // ROOM, CLIENTS), 1)


def _operations(described: Experiment) -> float:
    """Estimate the operations of a training step: 6 for each parameter and token of its batch."""
    import torch  # slow to import, and the sweep itself does not need it

    from highway.run import build

    with torch.device("meta"):
        task = build.task(described)
        tokens = task.tokens(build.like_real(described, "meta"))
    return 6.0 * tokens * sum(parameter.numel() for parameter in task.parameters())


def _memory(gpus: Sequence[str]) -> int:
    """Return the least MiB that are free on one of these GPUs; room for one run if that is unknown."""
    query = ("--query-gpu=memory.free", "--format=csv,noheader,nounits", "-i", ",".join(gpus))
    free = output_of("nvidia-smi", *query).split()
    return min(map(int, free)) if free and all(map(str.isdecimal, free)) else ROOM


@contextmanager
def shared_gpus() -> Iterator[dict[str, str]]:
    """Run NVIDIA's MPS during the block, if this machine has it; yield the environment of the runs that use it.

    If MPS runs already, it is used and left alone. Ours has a folder of its own, so that it serves no other program,
    and no other sweep loses it when this one ends.
    """
    folder = tempfile.mkdtemp(prefix="mps-", dir="/tmp")  # a socket's path must be short
    ours = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
    started = shutil.which(CONTROL) and not _control({}, typed="get_server_list") and _control(ours, "-d")
    try:
        yield ours if started else {}
    finally:
        if started:
            _control(ours, typed="quit")
        shutil.rmtree(folder, ignore_errors=True)


def _control(variables: dict[str, str], *arguments: str, typed: str = "") -> bool:
    """Call the control program of MPS, which then sees every GPU; return True if it did what it was told."""
    surroundings = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"} | variables
    silent: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "timeout": 30, "check": False}
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run([CONTROL, *arguments], input=f"{typed}\n", text=True, env=surroundings, **silent)
        return done.returncode == 0
    return False
