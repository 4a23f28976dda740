"""The processes of a run on several devices of this machine: the first starts the others, and they end with it.

All of them do the same work, each with a rank and whole lanes of its own; only the first writes and speaks. Where
something else starts every process (srun), nothing is started here.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import Any

import pytorch_lightning as pl
import torch

from highway.errors import Refused
from highway.run.checkpoint import Interrupted

NOTICE = 2.0  # seconds after an error in which a process that was killed shows as dead
GRACE = 30.0  # seconds that the first has to notice by itself that another is gone

ASKING = threading.Lock()
Others = list[Any]  # multiprocessing.context.SpawnProcess


@contextmanager
def companions(trainer: pl.Trainer, work: Callable[[], Any]) -> Iterator[None]:
    """Others do `work` while the block runs; where one of them is killed, the run is interrupted."""
    if trainer.world_size > 1:  # Lightning's handler of SIGTERM waits for the others, who may wait for something else
        trainer._signal_connector.register_signal_handlers = lambda: None  # type: ignore[method-assign]
    environment: Any = getattr(trainer.strategy, "cluster_environment", None)
    if trainer.world_size == 1 or environment.creates_processes_externally:
        yield
        return
    surroundings = {
        "LOCAL_RANK": "0",
        "MASTER_ADDR": environment.main_address,
        "MASTER_PORT": str(environment.main_port),
        "OMP_NUM_THREADS": str(torch.get_num_threads()),  # else Lightning shares the cores out anew
    }
    before = {name: os.environ.get(name) for name in surroundings}
    os.environ.update(surroundings)
    context, ended = multiprocessing.get_context("spawn"), threading.Event()
    others = [context.Process(target=_as_another, args=(work,), daemon=True) for _ in range(1, trainer.world_size)]
    try:
        for rank, other in enumerate(others, start=1):
            os.environ["LOCAL_RANK"] = str(rank)
            other.start()
        os.environ["LOCAL_RANK"] = "0"
        threading.Thread(target=_watch, args=(others, ended), daemon=True).start()
        yield
    except Exception as error:
        if lost := _killed(others, NOTICE):
            raise Interrupted(f"{lost}; the same command goes on from the last checkpoint") from error
        raise
    finally:
        ended.set()
        for other in others:  # whatever is worth keeping, this process has written
            other.kill()
            other.join()
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        for name in surroundings:
            os.environ.pop(name)
        os.environ.update({name: value for name, value in before.items() if value is not None})


def _as_another(work: Callable[[], Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # until training handles it; a terminal's reaches the first, too
    threading.Thread(target=_end_with_the_first, daemon=True).start()
    try:
        sys.exit(int(work() != "finished"))
    except Refused:  # the first says it
        sys.exit(1)


def _end_with_the_first() -> None:
    first = multiprocessing.parent_process()
    assert first is not None
    first.join()
    os._exit(1)


def _watch(others: Others, ended: threading.Event) -> None:
    """End this process if it goes on waiting for one that is gone; a collective on CUDA would for many minutes."""
    while not any(map(_code, others)) and not ended.wait(1.0):
        pass
    if not ended.wait(GRACE):
        print(f"error: {_killed(others, 0) or 'another process of this run has failed'}.", file=sys.stderr)
        os._exit(1)


def _killed(others: Others, seconds: float) -> str | None:
    """Which process has been killed, in words; one may be about to show as dead."""
    gone = wait([other.sentinel for other in others], seconds)
    for number, other in enumerate(others, start=2):
        code = _code(other, 1.0 if other.sentinel in gone else 0.0)  # its files close before it is dead
        if code is not None and code < 0:
            return f"process {number} of {len(others) + 1} was killed by {signal.Signals(-code).name}"
    return None


def _code(other: Any, seconds: float = 0.0) -> int | None:
    """An exit code; of two threads that ask for it at once, one would learn nothing."""
    with ASKING:
        other.join(seconds)
        code: int | None = other.exitcode
        return code
