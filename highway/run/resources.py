"""The memory of a run, and the load of this machine by others, which makes its times wrong."""

import contextlib
import ctypes
import os
import resource
import sys
import time
from pathlib import Path

import psutil
import torch

from highway.machine import started_by_srun

QUIET = 0.25  # number of processors that others may keep busy while a time is measured


def keep_freed_memory() -> None:
    """Let glibc keep large freed blocks, because a training step frees and takes the same sizes again and again.

    Fresh pages from the kernel cost up to half of the time of a step on a CPU (docs/LOG.md has the measurement).
    """
    if sys.platform == "linux":
        trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of <malloc.h>
        with contextlib.suppress(OSError, AttributeError):
            libc = ctypes.CDLL(None)
            libc.mallopt(mmap_threshold, 1 << 30)
            libc.mallopt(trim_threshold, (1 << 31) - 1)


class Neighbours:
    """The load of other processes while this run measures, which makes its times wrong."""

    def __init__(self) -> None:
        self._seconds, self._since = _seconds_of_others(), time.monotonic()

    def processors(self) -> float:
        """Return the mean number of processors that others have kept busy since this object was made."""
        return (_seconds_of_others() - self._seconds) / max(time.monotonic() - self._since, 1e-9)


def _seconds_of_others() -> float:
    """Return the processor seconds that this machine has spent since its boot on anything but this run.

    In a container, the other processes of its host count; on a virtual machine, so does the time that others took.
    """
    total = psutil.cpu_times()
    return total.user + total.nice + total.system + getattr(total, "steal", 0.0) - _seconds_of_run(psutil.Process())


def _seconds_of_run(me: psutil.Process) -> float:
    """Return the processor seconds of a process, its descendants, and the processes that srun started with it."""
    processes = [me]
    with contextlib.suppress(psutil.AccessDenied):  # where /proc is closed to other users, children count as others
        first = (started_by_srun() > 1 and me.parent()) or me
        processes = [first, *first.children(recursive=True)]
    seconds = 0.0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile
            seconds += sum(process.cpu_times()[:4])  # user and system, its own and of its children that have ended
    return seconds


def load_average() -> float | None:
    """Return how many processes have run or waited for a processor, a mean of the last minute; None if unknown."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):  # Windows has no load average
        return None


def peak_memory_bytes() -> int:
    """Return the most memory held so far, in bytes: on the CUDA device if there is one, otherwise by this process.

    Linux states the peak of the current program in /proc. getrusage (kilobytes on Linux, bytes on macOS) is the second
    choice, because on Linux its peak includes that of the process that started this one.
    """
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
