"""Show how far a run is: a line on the terminal, and numbers in its lease for the overview of a sweep."""

import math
import sys
import time
from typing import Any

import pytorch_lightning as pl

from highway.clock import clock
from highway.ledger.lease import HeldLease
from highway.run.recorder import Recorder

NOTED_EVERY = 0.2  # seconds between two notes of the progress in the lease
MODELS = 2  # the best and the last: each is evaluated after the training


class Progress(pl.Callback):
    """Show the progress of a run in the lease and in one line, rewritten on a terminal or printed now and then."""

    def __init__(self, recorder: Recorder, lease: HeldLease | None) -> None:
        self.recorder = recorder
        self.lease = lease
        self.on_terminal = sys.stderr.isatty()
        self.interval = 0.5 if self.on_terminal else 30.0
        self._noted_at = self._shown_at = 0.0
        self._first: tuple[int, float] | None = None  # the first step of this start, and when it ended
        self._validate_every = 0
        self._evaluations, self._evaluating, self._evaluation_began = 0, 0.0, 0.0  # count, seconds, time

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, *_: Any) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = self.recorder.steps, now
            self._validate_every = pl_module.data.validate_every
        if now - self._noted_at < NOTED_EVERY:
            return
        self._noted_at = now
        if self.lease:
            self.lease.progress = self._numbers(pl_module)
        known = not math.isnan(self.recorder.train_loss)
        if known and trainer.is_global_zero and now - self._shown_at >= self.interval:
            self._shown_at = now
            self._show(self._line(pl_module), final=not self.on_terminal)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self._evaluation_began = time.monotonic()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self._evaluations += 1
        self._evaluating += time.monotonic() - self._evaluation_began
        if self.lease:
            self.lease.progress = self._numbers(pl_module)
        if trainer.is_global_zero:
            split = pl_module.data.watched
            values = _named(pl_module.results_of[split])
            self._show(f"{self._line(pl_module)}  | {split} {values}", final=True)

    def _numbers(self, module: Any) -> dict[str, Any]:
        """Return the numbers of this run that a sweep's overview shows."""
        recorder = self.recorder
        losses = {"train_loss": recorder.train_loss, "valid_loss": recorder.validation.get("loss", math.nan)}
        left = self._seconds_left(module)
        return {
            "step": recorder.steps,
            "steps": module.total_steps,
            "seconds": round(recorder.seconds, 1),
            "tokens_per_second": round(recorder.tokens_per_second, 1),
            **({} if left is None else {"seconds_left": round(left, 1)}),
            **{name: round(loss, 4) for name, loss in losses.items() if math.isfinite(loss)},
        }

    def _seconds_left(self, module: Any) -> float | None:
        """Estimate the seconds until the tests have ended: steps, validations and tests at the speed of this start.

        None before the second step: the first one also compiles, fills caches and starts the data's workers. The length
        of a validation is known after the first one.
        """
        step, total, every = self.recorder.steps, module.total_steps, self._validate_every
        if self._first is None or step == self._first[0]:
            return None
        first, since = self._first
        each_step = (time.monotonic() - since - self._evaluating) / (step - first)
        each_evaluation = self._evaluating / max(self._evaluations, 1)
        validations = math.ceil(total / every) - math.ceil(max(self.recorder.last_validation, 0) / every)
        tests = MODELS * len(module.experiment.task_card.tested_splits)
        return each_step * (total - step) + each_evaluation * (validations + tests)

    def _line(self, module: Any) -> str:
        recorder = self.recorder
        epoch = recorder.steps / module.steps_per_epoch
        left, train = self._seconds_left(module), _named(module.loss_metrics(recorder.train_loss))
        return (
            f"epoch {epoch:.2f}/{round(module.total_steps / module.steps_per_epoch, 2):g}  "
            f"step {recorder.steps:,}/{module.total_steps:,}  train {train}  "
            f"{recorder.tokens_per_second:,.0f} tokens/s{'' if left is None else f'  {clock(left)} left'}"
        )

    def _show(self, line: str, final: bool) -> None:
        text = f"\r\x1b[K{line}" if self.on_terminal else line
        print(text, end="\n" if final else "", file=sys.stderr, flush=True)


def _named(values: dict[str, float]) -> str:
    return " ".join(
        f"{name} {value:.4f}" if name == "loss" else f"{name} {value:.4g}" for name, value in values.items()
    )
