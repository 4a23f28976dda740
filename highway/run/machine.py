"""Prepare this machine for a run, and describe it: log file, threads, memory, versions, other processes."""

import contextlib
import ctypes
import gc
import logging
import os
import platform
import resource
import sys
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
import torch

from highway.config.experiment import Experiment
from highway.config.project import project
from highway.config.training import Trainer
from highway.config.yaml_file import as_yaml
from highway.ledger.directory import RunDirectory
from highway.ledger.files import write_text, writing
from highway.ledger.identity import configuration
from highway.ledger.machine import commit, cores
from highway.run.processes import started_by_srun

log = logging.getLogger("highway")
QUIET = 0.25  # number of processors that others may keep busy while a time is measured
PACKAGES = ("torch", "pytorch-lightning", "hydra-core", "omegaconf", "numpy")


def settle(experiment: Experiment, directory: RunDirectory, threads: int | None, first: bool) -> None:
    """Fix the number of threads of a run, write its config.yaml, and prepare the machine.

    threads: number of threads at the first start of the run; None if no checkpoint states it.
    first: True in the first process of the run, which alone writes.
    """
    each = max(cores() // experiment.trainer.devices, 1)
    experiment.trainer.threads = threads or experiment.trainer.threads or each
    if first:
        write_down(directory, configuration(experiment))
    prepare(experiment.trainer.threads)
    if experiment.trainer.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when it starts
    torch.use_deterministic_algorithms(experiment.trainer.deterministic, warn_only=True)


def write_down(directory: RunDirectory, described: dict[str, Any]) -> None:
    write_text(directory.config, as_yaml(described))


def prepare(threads: int) -> None:
    """Set the number of threads, keep freed memory, and allow TF32 products on CUDA."""
    torch.set_num_threads(threads)
    keep_freed_memory()
    if torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")
        gc.collect()  # a CUDA graph of an earlier run, collected while this one records its own, would break that one
    _quiet_lightning()


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


def give_back_freed_memory() -> None:
    """Give freed memory back to the system and the CUDA device; otherwise the allocators keep it for the next use."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # musl has no malloc_trim
            ctypes.CDLL(None).malloc_trim(0)


class LogFile(logging.FileHandler):
    """log.txt. On a full disk the run goes on without it, and says so once."""

    full = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's name)
        """Say that a line could not be written; logging itself would print a stack trace for each line."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self.full:
            self.full = True
            log.warning("%s could not be written: %s. The run goes on.", self.baseFilename, error.strerror)


def open_log(path: Path) -> None:
    """Send log lines to log.txt, but not twice: a launcher may have redirected the output of this process there."""
    for handler in [handler for handler in log.handlers if isinstance(handler, logging.FileHandler)]:
        log.removeHandler(handler)
        with contextlib.suppress(OSError):
            handler.close()
    with writing(path):
        path.touch()
    if not os.path.samestat(os.fstat(2), path.stat()):
        log.addHandler(LogFile(path))


def _quiet_lightning() -> None:
    """Silence Lightning's advice, which is about ways of working that are not ours. Other warnings stay."""
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for message in (
        ".*does not have many workers.*",
        ".*GPU available but not used.*",
        ".*`srun` command is available.*",
        ".*`isinstance\\(treespec, LeafSpec\\)` is deprecated.*",
    ):
        warnings.filterwarnings("ignore", message)


def environment(experiment: Experiment, processes: int) -> dict[str, Any]:
    """Describe the code, packages, precision and threads of a run, for its record."""
    described = {}
    if user := project():
        described = {"project": {"package": user.package, "version": user.version, "git_commit": commit(user.folder)}}
    return {
        "git_commit": commit(),
        **described,
        "python": platform.python_version(),
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
        "precision": experiment.trainer.precision,
        "tf32": torch.cuda.is_available() and experiment.trainer.precision == "32",
        "compile": experiment.trainer.compile,
        "threads": experiment.trainer.threads,
        "processes": processes,
    }


def explained(failure: Exception, trainer: Trainer) -> str:
    """Return why a run failed, in one line; if memory ran out, with overrides that need less of it."""
    text = f"{type(failure).__name__}: {failure}".splitlines()[0]
    if not out_of_memory(failure):
        return text
    where = "the GPU" if isinstance(failure, torch.OutOfMemoryError) else "this machine"
    less = f"{trainer.less_memory}, or trainer.evaluation_batch=1 if an evaluation needed the memory"
    return f"{where} ran out of memory: {less} ({text})"


def out_of_memory(failure: Exception) -> bool:
    """Return True if memory ran out, on a GPU or here."""
    return isinstance(failure, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(failure)


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


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
