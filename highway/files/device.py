"""The name of a device, which is part of a timing's identity, and the number of cores."""

import os

from highway.files.system import processor_name


def device_name(kind: str) -> str:
    """Return the name of the `cuda` or `cpu` device."""
    if kind == "cuda":
        import torch

        return torch.cuda.get_device_name()
    return processor_name()


def cores() -> int:
    """Return the number of cores that this process may use. A cluster or taskset may grant fewer than exist."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
