"""Start a run, or resume it: take its lease, find its checkpoint, open its log, and prepare the process."""

import contextlib
import gc
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

import torch

from highway.config.experiment import Experiment
from highway.errors import Refused
from highway.keys.yaml_file import as_yaml
from highway.ledger.directory import RunDirectory
from highway.ledger.files import write_text, writing
from highway.ledger.identity import configuration
from highway.ledger.lease import HeldLease
from highway.machine import cores
from highway.run.checkpoint import Resume, resumable
from highway.run.devices import first_process
from highway.run.resources import keep_freed_memory

log = logging.getLogger("highway")


class Start(NamedTuple):
    """The state with which a run starts."""

    lease: HeldLease | None  # None in the other processes of a run on several devices
    resume: Resume | None  # None if it starts from step 0


def check_accelerator(experiment: Experiment) -> None:
    """Refuse to run on a GPU where there is none."""
    if experiment.trainer.accelerator == "gpu" and not torch.cuda.is_available():
        raise Refused("trainer.accelerator=gpu is set, but torch sees no GPU here. Write trainer.accelerator=cpu.")


@contextmanager
def hold_run(experiment: Experiment, directory: RunDirectory) -> Iterator[Start | None]:
    """Hold the lease of a run while the block trains it. Yield None if the run is finished, so nothing is to be done.

    Of several processes, the first one alone holds the lease, deletes files and writes the log.
    """
    first = first_process()
    check_accelerator(experiment)
    with directory.leased() if first else nullcontext() as lease:
        if lease and experiment.debug.scratch:
            directory.clear()
        if directory.done:
            log.info("%s is %s already: nothing to run.", directory.path, directory.status)
            yield None
            return
        if lease:
            directory.begin()
            open_log(directory.log)
        else:
            log.setLevel(logging.ERROR)
        resume = resumable(directory, forget=first)
        prepare_process(experiment, directory, resume.threads if resume else None, first)
        yield Start(lease, resume)


def prepare_process(experiment: Experiment, directory: RunDirectory, threads: int | None, first: bool) -> None:
    """Fix the number of threads of a run, write its config.yaml, and prepare the machine.

    threads: number of threads at the first start of the run; None if no checkpoint states it.
    first: True in the first process of the run, which alone writes.
    """
    each = max(cores() // experiment.trainer.devices, 1)
    experiment.trainer.threads = threads or experiment.trainer.threads or each
    if first:
        write_text(directory.config, as_yaml(configuration(experiment)))
    set_up_torch(experiment.trainer.threads)
    if experiment.trainer.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when it starts
    torch.use_deterministic_algorithms(experiment.trainer.deterministic, warn_only=True)


def set_up_torch(threads: int) -> None:
    """Set the number of threads, keep freed memory, and allow TF32 products on CUDA."""
    torch.set_num_threads(threads)
    keep_freed_memory()
    if torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")
        gc.collect()  # a CUDA graph of an earlier run, collected while this one records its own, would break that one
    _quiet_lightning()


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
    """Silence advice of Lightning and torch about ways of working that are not ours. Other warnings stay."""
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for message in (
        ".*does not have many workers.*",
        ".*GPU available but not used.*",
        ".*`srun` command is available.*",
        ".*`isinstance\\(treespec, LeafSpec\\)` is deprecated.*",
        ".*`broadcast_buffers` is deprecated.*",  # what takes its place is missing in older versions of torch
    ):
        warnings.filterwarnings("ignore", message)
