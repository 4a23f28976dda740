"""Start a run, or resume it: take its lease, find its checkpoint, and settle the process in which it trains."""

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import torch

from highway.config.experiment import Experiment
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.ledger.lease import HeldLease
from highway.run import machine
from highway.run.checkpoint import Resume, resumable
from highway.run.processes import first_process

log = logging.getLogger("highway")


class Start(NamedTuple):
    """The state with which a run starts."""

    lease: HeldLease | None  # None in the other processes of a run on several devices
    resume: Resume | None  # None if it starts from step 0


@contextmanager
def started(experiment: Experiment, directory: RunDirectory) -> Iterator[Start | None]:
    """Hold the lease of a run while the block trains it. Yield None if the run is finished, so nothing is to be done.

    Of several processes, the first one alone holds the lease, deletes files and writes the log.
    """
    first = first_process()
    if experiment.trainer.accelerator == "gpu" and not torch.cuda.is_available():
        raise Refused("trainer.accelerator=gpu is set, but torch sees no GPU here. Write trainer.accelerator=cpu.")
    if experiment.debug.scratch and first:
        shutil.rmtree(directory.path, ignore_errors=True)
    with directory.leased() if first else nullcontext() as lease:
        if directory.done:
            log.info("%s is %s already: nothing to run.", directory.path, directory.status)
            yield None
            return
        if lease:
            directory.begin()
            machine.open_log(directory.log)
        else:
            log.setLevel(logging.ERROR)
        resume = resumable(directory, forget=first)
        machine.settle(experiment, directory, resume.threads if resume else None, first)
        yield Start(lease, resume)
