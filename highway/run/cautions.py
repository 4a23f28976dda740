"""Warn about a recipe on this machine before the first step. Each caution is one sentence that says what to type."""

import logging
import math
from collections.abc import Iterable

import torch

from highway.cards.models import Recurrent
from highway.config.experiment import Experiment
from highway.errors import Refused
from highway.run import build

log = logging.getLogger("highway")
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
    runs = list(experiments)
    on_gpu = [run for run in runs if torch.cuda.is_available() and run.trainer.accelerator != "cpu"]
    wrong = [run for run in on_gpu if is_stacked_lstm(run) and run.trainer.precision == "bf16"]
    texts = {"plateau": misses_epochs(runs), "lstm": WRONG_LSTM if wrong else None}
    return {name: caution for name, caution in texts.items() if caution}


def is_stacked_lstm(run: Experiment) -> bool:
    """Return True for an LSTM of several layers, whose gradients were wrong in bf16 on a GPU."""
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
