"""What the device of a run is called; timings have it in their identity. And how many cores there are."""

import os

from highway.ledger.system import processor_name


def device_name(kind: str) -> str:
    """Of a `cuda` or `cpu` device."""
    if kind == "cuda":
        import torch

        return torch.cuda.get_device_name()
    return processor_name()


def cores() -> int:
    """Those that this process may use: on a cluster, or under taskset, fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
