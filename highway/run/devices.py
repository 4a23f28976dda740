"""The processes of a run, one per device: who starts them, which one is the first, and how they end together.

The first process of a run starts the others on this machine (`other_processes`), and they end with it. If something
else (srun, torchrun) starts every process, nothing is started here. All do the same work, each with its own rank and
its own whole lanes. Only the first one writes files and messages.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.environments import ClusterEnvironment, LightningEnvironment, SLURMEnvironment

from highway.config.trainer import Trainer
from highway.errors import Refused
from highway.machine import UNSET, rank, started_by_srun
from highway.run.checkpoint import Interrupted

CHECKED = "2.6"  # the version of Lightning with which `ignore_signals` was tried; a test fails on any other
NOTICE = 2.0  # seconds after an error in which a killed process shows as dead
GRACE = 30.0  # seconds for the first process to notice by itself that another is gone

EXIT_CODE_LOCK = threading.Lock()  # of two threads that wait for a process at once, one gets no exit code
Others = list[SpawnProcess]


def first_process() -> bool:
    """Return whether this process keeps the record.

    This project and torchrun set RANK or LOCAL_RANK for the processes that they start, and MASTER_ADDR with it.
    """
    if started_by_srun() > 1:
        return os.environ["SLURM_PROCID"] == "0"
    return rank() == 0


def cluster_environment(settings: Trainer) -> ClusterEnvironment:
    """Return Lightning's environment. Lightning itself takes any shell on a cluster for srun's, and requeues jobs."""
    tasks = started_by_srun()
    if settings.processes == 1 and not first_process():
        raise Refused(f"{settings.processes_as_asked} takes one process, but this one has the rank of another. {UNSET}")
    if tasks > 1 and tasks != settings.processes:
        raise Refused(f"srun has started {tasks} processes, {settings.processes_as_asked} takes {settings.processes}.")
    if tasks > 1:
        return SLURMEnvironment(auto_requeue=False)
    if settings.nodes > 1 and "RANK" not in os.environ:
        raise Refused(
            f"trainer.nodes={settings.nodes}, but only this process runs. Start them all with hydra/launcher=slurm, or "
            "with srun --nodes and --ntasks-per-node."
        )
    return LightningEnvironment()


def ignore_signals(trainer: pl.Trainer) -> None:
    """Keep Lightning from handling signals: its handler of SIGTERM waits for processes that may wait elsewhere.

    This is the only private part of Lightning that the project uses.
    """
    trainer._signal_connector.register_signal_handlers = lambda: None  # type: ignore[method-assign]


@contextmanager
def other_processes(trainer: pl.Trainer, work: Callable[[], Any]) -> Iterator[None]:
    """Let the other processes do `work` while the block runs. Raise Interrupted if one of them is killed."""
    if trainer.world_size > 1:
        ignore_signals(trainer)
    environment: Any = getattr(trainer.strategy, "cluster_environment", None)
    if trainer.world_size == 1 or environment.creates_processes_externally:  # also in a process that we started
        yield
        return
    surroundings = {
        "LOCAL_RANK": "0",
        "MASTER_ADDR": environment.main_address,
        "MASTER_PORT": str(environment.main_port),
        "OMP_NUM_THREADS": str(torch.get_num_threads()),  # otherwise Lightning divides the cores again
    }
    before = {name: os.environ.get(name) for name in surroundings}
    os.environ.update(surroundings)
    context, ended = multiprocessing.get_context("spawn"), threading.Event()
    others = [context.Process(target=_as_another, args=(work,), daemon=True) for _ in range(1, trainer.world_size)]
    try:
        for number, other in enumerate(others, start=1):
            os.environ["LOCAL_RANK"] = str(number)
            other.start()
        os.environ["LOCAL_RANK"] = "0"
        threading.Thread(target=_watch, args=(others, ended), daemon=True).start()
        yield
    except Exception as error:
        if lost := _killed(others, NOTICE):
            raise Interrupted(f"{lost}; the same command continues from the last checkpoint") from error
        raise
    finally:
        ended.set()
        for other in others:  # this process has written all that is worth keeping
            other.kill()
            other.join()
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        for name in surroundings:
            os.environ.pop(name)
        os.environ.update({name: value for name, value in before.items() if value is not None})


def _as_another(work: Callable[[], Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # until training handles it; Ctrl-C reaches the first process too
    threading.Thread(target=_end_with_the_first, daemon=True).start()
    try:
        sys.exit(int(work() != "finished"))
    except Refused:  # the first process prints the message
        sys.exit(1)


def _end_with_the_first() -> None:
    first = multiprocessing.parent_process()
    assert first is not None
    first.join()
    os._exit(1)


def _watch(others: Others, ended: threading.Event) -> None:
    """End this process if it still waits for a dead one after GRACE seconds: a CUDA collective would wait minutes."""
    while not any(map(_code, others)) and not ended.wait(1.0):
        pass
    if not ended.wait(GRACE):
        print(f"error: {_killed(others, 0) or 'another process of this run has failed'}.", file=sys.stderr)
        os._exit(1)


def _killed(others: Others, seconds: float) -> str | None:
    """Return which process was killed by which signal; None if none was.

    Wait at most `seconds` for a process to show as dead.
    """
    gone = wait([other.sentinel for other in others], seconds)
    for number, other in enumerate(others, start=2):
        code = _code(other, 1.0 if other.sentinel in gone else 0.0)  # its files are closed before it is dead
        if code is not None and code < 0:
            return f"process {number} of {len(others) + 1} was killed by {signal.Signals(-code).name}"
    return None


def _code(other: SpawnProcess, seconds: float = 0.0) -> int | None:
    """Return the exit code of a process, None while it runs."""
    with EXIT_CODE_LOCK:
        other.join(seconds)
        return other.exitcode
