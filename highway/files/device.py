"""The name of a device; the number of cores; the rank of a process."""

import os

from highway.errors import Refused
from highway.files.system import processor_name

UNSET = "Type `unset RANK LOCAL_RANK WORLD_SIZE MASTER_ADDR`, and start again."


def device_name(kind: str) -> str:
    """Return the name of the `cuda` or `cpu` device; a processor's with the vector instructions that torch uses.

    A virtual machine may call processors with and without AVX-512 by one name, and they round differently.
    """
    import torch

    if kind == "cuda":
        return torch.cuda.get_device_name()
    vectors = torch.backends.cpu.get_cpu_capability()
    return f"{processor_name()}, {vectors}" if vectors in ("AVX512", "AVX2") else processor_name()


def cores() -> int:
    """Return the number of cores that this process may use. A cluster or taskset may grant fewer than exist."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def rank() -> int:
    """Return the number of this process among those of its run, as whoever started it says; 0 for a single one.

    This project and torchrun set MASTER_ADDR with the rank, so a rank without it is left over in the shell.
    """
    name = next((name for name in ("RANK", "LOCAL_RANK") if name in os.environ), None)
    if name is None:
        return 0
    number = os.environ[name]
    if "MASTER_ADDR" not in os.environ or not number.isdecimal():
        raise Refused(f"{name}={number} is left over in this shell from another run. {UNSET}")
    return int(number)
