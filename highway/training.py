"""Train one run, from a checked configuration to result.json. The whole story is here: read this file first."""

import logging
from functools import partial
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from pytorch_lightning.strategies import DDPStrategy

from highway.config.experiment import Experiment
from highway.data.batches import ExperimentData
from highway.ledger.directory import RunDirectory
from highway.run import build
from highway.run.cautions import warn
from highway.run.checkpoint import AtomicCheckpoints, Checkpointer, Resume, load_weights
from highway.run.compiled import compile_training, mode_of
from highway.run.devices import cluster_environment, first_process, other_processes
from highway.run.mirror import mirror_of
from highway.run.outcome import Outcome, save_probes
from highway.run.profile import Profile
from highway.run.progress import Progress
from highway.run.recorder import Recorder
from highway.run.start import Start, hold_run
from highway.run.whole import WholeUpdates
from highway.tasks.task import Task

log = logging.getLogger("highway")
PRECISIONS: dict[str, Any] = {"32": "32-true", "bf16": "bf16-mixed", "64": "64-true"}


class Parts(NamedTuple):
    """The parts that train a run, and that its test reads."""

    data: ExperimentData
    task: Task
    trainer: pl.Trainer
    recorder: Recorder
    checkpointer: Checkpointer


def run(experiment: Experiment, directory: RunDirectory, command: str, callbacks: tuple[pl.Callback, ...] = ()) -> str:
    """Train, test and record one run. Return its status in result.json, or "unwritable" if a file cannot be written."""
    with hold_run(experiment, directory) as start:
        if start is None:
            return directory.status
        with Outcome(experiment, directory, command) as outcome:  # it records how the block ends
            parts = build_parts(experiment, directory, outcome, start, callbacks)
            with other_processes(parts.trainer, partial(run, experiment, directory, command, callbacks)):
                train(parts, directory, start.resume)
                test(parts, directory, outcome)
    return "unwritable" if outcome.unwritable else outcome.status


def build_parts(
    experiment: Experiment,
    directory: RunDirectory,
    outcome: Outcome,
    start: Start,
    callbacks: tuple[pl.Callback, ...],
) -> Parts:
    """Build data, task and trainer of a run, describe them in its outcome, compile, and begin the mirror on W&B."""
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
    mode = mode_of(experiment, trainer.strategy.root_device.type, data.total_steps)
    counting_loss = data.counting_loss()  # of predicting by frequencies: a run that is no better has learnt nothing
    outcome.describe({**description, "counting_loss": counting_loss}, task.model, recorder, trainer, mode)
    compile_as(mode, task, experiment, trainer)
    if experiment.logger.wandb and trainer.is_global_zero:
        mirror = mirror_of(experiment, directory)
        recorder.listeners.append(mirror)
        outcome.listeners.append(mirror.finish)
    return Parts(data, task, trainer, recorder, checkpointer)


def train(parts: Parts, directory: RunDirectory, resume: Resume | None) -> None:
    """Train from the checkpoint, or from step 0, to the last step, and save the weights of the last model."""
    data, task, trainer, recorder, checkpointer = parts
    # each update calls the hooks that tasks/task.py lists; run/recorder.py writes the rows of curves.csv
    trainer.fit(task, data, ckpt_path=resume.path if resume else None, weights_only=True)
    if recorder.last_validation != recorder.steps:  # the number of steps is no multiple of validate_every
        trainer.validate(task, data, verbose=False)
    if trainer.is_global_zero:
        checkpointer.save_run_weights(task.model, directory.last)


def test(parts: Parts, directory: RunDirectory, outcome: Outcome) -> None:
    """Test the last and the best model, because papers differ in which one they report, and fill in the outcome.

    The task holds the best model afterwards.
    """
    data, task, trainer, recorder, _ = parts
    last = best = evaluate(parts, recorder.validation)
    if recorder.best_step != recorder.steps:
        load_weights(task.model, directory.best, directory.id, recorder.best_step)
        best = evaluate(parts, recorder.best)
    outcome.metrics = {name: {"best": best[name], "last": last[name]} for name in last}
    outcome.metrics["train_seconds"] = dict.fromkeys(("best", "last"), round(recorder.seconds, 3))
    outcome.content["notes"] = task.notes
    if trainer.is_global_zero:
        save_probes(task.figure_arrays(data), directory.path / "probes")


def evaluate(parts: Parts, validation: dict[str, float]) -> dict[str, float]:
    """Compute every metric of the model that the task holds.

    validation: the metrics of the watched split from training, reused if a trained model is evaluated in the same way.
    """
    data, task, trainer, *_ = parts
    data.final = data.final_differs
    metrics: dict[str, float] = {}
    for split in dict.fromkeys((data.watched, *task.experiment.task_card.tested_splits)):
        validated = split == data.watched and not data.final
        if not validated:
            data.tested = split  # what trainer.test evaluates
            trainer.test(task, data, verbose=False)
        values = validation if validated else task.results_of[split]
        metrics |= {f"{split}_{name}": value for name, value in values.items()}
    return {**metrics, **task.final_metrics(data)}


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


def compile_as(mode: str | None, task: Task, experiment: Experiment, trainer: pl.Trainer) -> None:
    """Compile the training step in this mode; None leaves it as it is."""
    if trainer.strategy.root_device.type == "cuda":  # trainer.compile=null is also for the kernels of an RHN
        torch.compiler.set_stance("default" if experiment.trainer.compile else "force_eager")
    if mode is not None:
        compile_training(task, experiment, mode, trainer.global_rank, trainer.world_size)
    if mode == "whole":
        task.whole = WholeUpdates(task, lambda: trainer.optimizers[0])
