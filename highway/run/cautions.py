"""Warn about a recipe on this machine before the first step. Each caution is one sentence that says what to type."""

import logging
import math
from collections.abc import Iterable

import torch

from highway.blocks.processor import bf16_factor
from highway.config.experiment import Experiment
from highway.config.models import Recurrent
from highway.errors import Refused
from highway.ledger.machine import device_name
from highway.run import build

log = logging.getLogger("highway")
SLOWER = 1.1  # time in bf16 over time in fp32; a smaller factor is not worth a caution
WRONG_LSTM = (
    "trainer.precision=bf16 is not to be trusted for an LSTM of several layers on a GPU: on an H200 its gradients "
    "were wrong by a third and more of their size. Use trainer.precision=32."
)
SAID: set[str] = set()  # subjects that this process has logged; it may run a whole sweep


def warn(experiments: Iterable[Experiment]) -> None:
    """Log each caution, but only once per process."""
    for name, caution in cautions(experiments).items():
        if name not in SAID:
            log.warning("%s", caution)
            SAID.add(name)


def cautions(experiments: Iterable[Experiment]) -> dict[str, str]:
    """Return the cautions about runs on this machine, by subject."""
    on: dict[str, list[Experiment]] = {"cpu": [], "cuda": []}
    for run in experiments:
        on["cuda" if torch.cuda.is_available() and run.trainer.accelerator != "cpu" else "cpu"].append(run)
    in_bf16 = {device: [run for run in runs if run.trainer.precision == "bf16"] for device, runs in on.items()}
    texts = {
        "bf16": slow_precision() if in_bf16["cpu"] else None,
        "plateau": misses_epochs(run for runs in on.values() for run in runs),
        "lstm": WRONG_LSTM if any(map(_is_stacked_lstm, in_bf16["cuda"])) else None,
    }
    return {name: caution for name, caution in texts.items() if caution}


def _is_stacked_lstm(run: Experiment) -> bool:
    return isinstance(run.model, Recurrent) and run.model.cell == "lstm" and run.model.layers > 1


def misses_epochs(runs: Iterable[Experiment]) -> str | None:
    """Return a sentence if a plateau schedule sees some epochs only; None if each sees all, or its data are missing."""
    plateaus = [
        run
        for run in runs
        if run.optimizer.schedule == "plateau" and run.trainer.validate_every
        if run.trainer.max_epochs > run.optimizer.plateau.after_epoch  # else its data need not be built
    ]
    for run in {repr((run.dataset, run.trainer)): run for run in plateaus}.values():
        try:
            data = build.data(run)
        except Refused:  # the run itself will say so
            continue
        every, epoch = run.trainer.validate_every or 1, data.steps_per_epoch
        epochs, seen = data.total_steps // epoch, data.total_steps // math.lcm(every, epoch)
        if seen < epochs and epochs > run.optimizer.plateau.after_epoch:
            return (
                "optimizer.schedule=plateau looks at validations at the end of an epoch alone. With "
                f"trainer.validate_every={every} it sees {seen} of {epochs} epochs. To let it see all, type "
                f"trainer.validate_every=null or a divisor of {epoch}."
            )
    return None


def slow_precision() -> str | None:
    """Return a sentence with the measured factor by which bf16 is slower than fp32 here; None if it is not slower."""
    factor = bf16_factor()
    if factor < SLOWER:
        return None
    return (
        f"trainer.precision=bf16 is slow on this processor ({device_name('cpu')}): a small training step took "
        f"{factor:.1f} times as long as in fp32; trainer.precision=32 is the faster choice here."
    )
