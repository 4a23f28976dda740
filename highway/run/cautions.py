"""What a user should know about this machine before the first step: each caution is one sentence with what to type."""

import logging
import os
from collections.abc import Iterable

import torch

from highway.blocks.processor import bf16_factor
from highway.config.experiment import Experiment
from highway.ledger.device import cores, device_name

log = logging.getLogger("highway")
SLOWER = 1.1  # times as long as fp32: what is within this is not worth a sentence
SAID: set[str] = set()  # in this process, which may run a whole sweep


def warn(experiments: Iterable[Experiment]) -> None:
    """Log each caution once in a process."""
    for name, caution in cautions(experiments).items():
        if name not in SAID:
            log.warning("%s", caution)
            SAID.add(name)


def cautions(experiments: Iterable[Experiment]) -> dict[str, str]:
    """Return what to say about runs on this machine, by subject; nothing where HIGHWAY_CAUTIONS=off."""
    if os.environ.get("HIGHWAY_CAUTIONS") == "off":
        return {}
    on_cpu = [one for one in experiments if one.trainer.accelerator == "cpu" or not torch.cuda.is_available()]
    in_bf16 = any(one.trainer.precision == "bf16" for one in on_cpu)
    found = {"bf16": slow_precision() if in_bf16 else None, "load": busy() if on_cpu else None}
    return {name: caution for name, caution in found.items() if caution}


def slow_precision() -> str | None:
    """Say that bf16 is slower than fp32 here, and by which measured factor; None where it is not."""
    factor = bf16_factor()
    if factor < SLOWER:
        return None
    return (
        f"trainer.precision=bf16 is slow on this processor ({device_name('cpu')}): a small training step took "
        f"{factor:.1f} times as long as in fp32; trainer.precision=32 is the faster choice here."
    )


def busy() -> str | None:
    """Say that this machine has more to do than it has processors; None where it has not, or nobody can tell."""
    processors = os.cpu_count() or 1
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows has none
        return None
    in_sweep = os.environ.get("HIGHWAY_SLOTS")  # the sweep has said it, and is part of the load
    if load < processors + 1 or in_sweep:
        return None
    advice = " trainer.threads=1 suffers least: threads that wait for each other can make a run many times slower."
    return (
        f"This machine is busy: its load is {load:.1f} with {processors} processors, so runs will be slow."
        f"{advice if cores() > 1 else ''}"
    )
