"""Train one run, from a checked configuration to result.json. The whole story is here: read this file first."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.strategies import DDPStrategy
from torch import Tensor

from highway.config.experiment import Experiment
from highway.dashboard.mirror import mirror_of
from highway.data.batches import ExperimentData
from highway.ledger.directory import RunDirectory
from highway.run import build
from highway.run.cautions import warn
from highway.run.checkpoint import AtomicCheckpoints, Checkpointer, load_weights
from highway.run.compiled import compile_training, mode_of
from highway.run.devices import cluster_environment, companions, first_process
from highway.run.outcome import Outcome, save_probes
from highway.run.profile import Profile
from highway.run.recorder import Progress, Recorder
from highway.run.start import Start, hold_run
from highway.run.whole import WholeUpdates
from highway.tasks.task import Task

log = logging.getLogger("highway")
PRECISIONS: dict[str, Any] = {"32": "32-true", "bf16": "bf16-mixed", "64": "64-true"}


def run(experiment: Experiment, directory: RunDirectory, command: str, callbacks: tuple[pl.Callback, ...] = ()) -> str:
    """Train, test and record one run. Return its status in result.json, or "unwritable" if a file cannot be written."""
    with hold_run(experiment, directory) as start:
        if start is None:
            return directory.status
        with Outcome(experiment, directory, command) as outcome:  # it records how the block ends
            run_again = partial(run, experiment, directory, command, callbacks)
            train_and_test(experiment, directory, outcome, start, callbacks, run_again)
    return "unwritable" if outcome.unwritable else outcome.status


def train_and_test(
    experiment: Experiment,
    directory: RunDirectory,
    outcome: Outcome,
    start: Start,
    callbacks: tuple[pl.Callback, ...],
    run_again: Callable[[], str],
) -> None:
    """Train a run, test its best and its last model, and fill in its outcome.

    run_again: runs this same run. On several devices, every other process calls it.
    """
    data = build.data(experiment)
    task = build.task(experiment, data.steps_per_epoch, data.total_steps)
    warn([experiment])
    for remark in data.remarks:
        log.info("%s", remark)
    description = data.description()
    recorder = Recorder(directory, experiment, description.get("sha256"))
    checkpointer = Checkpointer(directory, experiment, recorder, description.get("vocabulary_sha256"))
    our_callbacks = [recorder, Progress(recorder, start.lease), checkpointer]
    if experiment.debug.profile and first_process():
        our_callbacks.append(Profile(directory.path / "profile", data.total_steps))
    trainer = make_trainer(experiment, data.validate_every, [*build.callbacks(experiment), *our_callbacks, *callbacks])
    device = trainer.strategy.root_device.type
    mode = mode_of(experiment, device, data.total_steps)
    outcome.describe({**description, "counting_loss": data.counting_loss()}, task.model, recorder, trainer, mode)
    if device == "cuda":  # trainer.compile=null is also for the kernels of an RHN
        torch.compiler.set_stance("default" if experiment.trainer.compile else "force_eager")
    if mode is not None:
        compile_training(task, experiment, mode, trainer.global_rank, trainer.world_size)
    if mode == "whole":
        task.whole = WholeUpdates(task, lambda: trainer.optimizers[0])
    if experiment.logger.wandb and trainer.is_global_zero:
        mirror = mirror_of(experiment, directory)
        recorder.listeners.append(mirror)
        outcome.listeners.append(mirror.finish)

    with companions(trainer, run_again):
        trainer.fit(task, data, ckpt_path=start.resume.path if start.resume else None, weights_only=True)
        if recorder.last_validation != recorder.steps:  # the number of steps is no multiple of validate_every
            trainer.validate(task, data, verbose=False)
        if trainer.is_global_zero:
            checkpointer.save_run_weights(task.model, directory.last)
        outcome.metrics, units = test_best_and_last(trainer, task, data, recorder, directory)
        outcome.metrics["train_seconds"] = dict.fromkeys(("best", "last"), round(recorder.seconds, 3))
        outcome.content["notes"] = task.notes
        if trainer.is_global_zero:
            save_probes({**task.figure_arrays(data), **units}, directory.path / "probes")


def make_trainer(experiment: Experiment, validate_every: int, callbacks: list[pl.Callback]) -> pl.Trainer:
    """Build the Lightning trainer. It runs all steps as one epoch; the task counts the epochs of the recipe."""
    settings = experiment.trainer
    return pl.Trainer(
        max_epochs=1,
        val_check_interval=validate_every,
        accelerator=settings.accelerator,
        devices=settings.devices,
        num_nodes=settings.nodes,
        strategy=DDPStrategy(broadcast_buffers=False) if settings.processes > 1 else "auto",
        precision=PRECISIONS[settings.precision],
        callbacks=callbacks,
        plugins=[AtomicCheckpoints(), cluster_environment(settings)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        detect_anomaly=experiment.debug.anomaly,
    )


def test_best_and_last(
    trainer: pl.Trainer, task: Task, data: ExperimentData, recorder: Recorder, directory: RunDirectory
) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, Tensor]]]:
    """Test the last and the best model, because papers differ in which one they report.

    Return metric -> {"best": value, "last": value}, and the losses of the test units of both as arrays to keep. The
    task holds the best model afterwards.
    """
    last = best = metrics_of(trainer, task, data, recorder.validation)
    units_of_last = task.test_units
    if recorder.best_step != recorder.steps:
        load_weights(task.model, directory.best, directory.id, recorder.best_step)
        best = metrics_of(trainer, task, data, recorder.best)
    units = {"test_units_best": task.test_units, "test_units_last": units_of_last} if task.test_units else {}
    return {name: {"best": best[name], "last": last[name]} for name in last}, units


def metrics_of(trainer: pl.Trainer, task: Task, data: ExperimentData, validation: dict[str, float]) -> dict[str, float]:
    """Compute every metric of the model that the task holds.

    validation: the metrics of the watched split from training, reused if a trained model is evaluated in the same way.
    """
    data.final = data.final_differs
    metrics: dict[str, float] = {}
    for split in dict.fromkeys((data.watched, "test")):
        validated = split == data.watched and not data.final
        if not validated or split == "test":  # a test alone keeps the losses of the units of the test split
            data.tested = split  # what trainer.test evaluates
            trainer.test(task, data, verbose=False)
        values = validation if validated else task.results_of[split]
        metrics |= {f"{split}_{name}": value for name, value in values.items()}
    return {**metrics, **task.final_metrics(data)}
