"""Several runs on one GPU: how many suit it, and NVIDIA's MPS, which lets their kernels run at the same time."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from highway.config.experiment import Experiment
from highway.ledger.machine import cores
from highway.sweep.planned import Planned

BUSY = 4e11  # operations in one step of all runs on a GPU: about what an H200 computes while a step is launched
ROOM = 4096  # MiB of a GPU for each run: its context takes 500, and the small runs that share take up to 3,000
CONTROL = "nvidia-cuda-mps-control"


def runs_on_a_gpu(runs: Sequence[Planned], in_sweep: int, gpus: int) -> int:
    """Return how many runs share each GPU: as many as keep it busy, with a core and enough of its memory for each."""
    if any(run.devices > 1 for run in runs):
        return 1
    described = {repr((run.experiment.model, run.experiment.dataset)): run.experiment for run in runs if run.experiment}
    busy = min((int(BUSY // _operations(each)) for each in described.values()), default=1)
    return max(min(busy, -(-in_sweep // gpus), cores() // gpus, _memory() // ROOM), 1)


def _operations(described: Experiment) -> float:
    """Estimate the operations of a training step: 6 for each parameter and token of its batch."""
    import torch  # slow to import, and the sweep itself does not need it

    from highway.run import build

    with torch.device("meta"):
        task = build.task(described)
        tokens = task.tokens(build.like_real(described, "meta"))
    return 6.0 * tokens * sum(parameter.numel() for parameter in task.parameters())


def _memory() -> int:
    """Return the MiB of the smallest GPU of this machine; room for one run if that is unknown."""
    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    with suppress(OSError, ValueError):
        listed = subprocess.run(command, capture_output=True, text=True, check=False)
        return min(map(int, listed.stdout.split()))
    return ROOM


@contextmanager
def shared_gpus() -> Iterator[None]:
    """Run NVIDIA's MPS during the block, if this machine has it; one that runs already is used, and left alone."""
    surroundings = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}  # all GPUs

    def control(*arguments: str, typed: str = "") -> bool:
        """Call the control program; return True if it did what it was told."""
        silent: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                [CONTROL, *arguments], input=typed, text=True, env=surroundings, timeout=30, check=False, **silent
            )
            return done.returncode == 0
        return False

    starts = bool(shutil.which(CONTROL)) and not control(typed="get_server_list\n") and control("-d")
    try:
        yield
    finally:
        if starts:
            control(typed="quit\n")
