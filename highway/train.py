"""One run, from a checked configuration to result.json. The whole story; read it first."""

import logging
import shutil
import traceback
from contextlib import nullcontext
from typing import Any

import pytorch_lightning as pl

from highway.config.experiment import Experiment
from highway.data.module import ExperimentData
from highway.errors import Refused
from highway.ledger.cell import Cell
from highway.ledger.lease import HeldLease
from highway.run import build, machine
from highway.run.checkpoint import AtomicCheckpoints, Checkpointer, Interrupted, load_weights, save_weights
from highway.run.mirror import Mirror
from highway.run.probes import save_probes
from highway.run.processes import environment, first_process
from highway.run.profile import Profile
from highway.run.progress import Progress
from highway.run.record import Record
from highway.run.recorder import Diverged, Recorder
from highway.tasks.task import Task

log = logging.getLogger("highway")
PRECISIONS: dict[str, Any] = {"32": "32-true", "bf16": "bf16-mixed", "64": "64-true"}


def run(experiment: Experiment, cell: Cell, command: str, callbacks: tuple[pl.Callback, ...] = ()) -> str:
    """Train, test and record one cell; the status that its result.json then has."""
    if experiment.debug.scratch and first_process():
        shutil.rmtree(cell.directory, ignore_errors=True)
    with cell.leased() if first_process() else nullcontext() as lease:
        if cell.done:
            log.info("%s is %s already: nothing to run.", cell.directory, cell.status)
            return cell.status
        if lease:
            cell.begin()
        machine.settle(experiment, cell)
        record = Record(experiment, cell, command)
        try:
            train_and_test(experiment, cell, record, lease, callbacks)
            record.end("finished")
        except Interrupted as stop:
            record.end("interrupted", str(stop))
        except Diverged as divergence:
            record.end("diverged", str(divergence))
        except Refused:  # the user can mend it, so it is no result of this cell
            raise
        except Exception as failure:
            log.error("%s", traceback.format_exc())
            record.end("failed", f"{type(failure).__name__}: {failure}")
        finally:
            record.close()
        if first_process():
            record.write()
        return record.status


def train_and_test(
    experiment: Experiment, cell: Cell, record: Record, lease: HeldLease | None, callbacks: tuple[pl.Callback, ...]
) -> None:
    data = build.data(experiment)
    for remark in data.remarks:
        log.info("%s", remark)
    task = build.task(experiment, data.steps_per_epoch, data.total_steps)
    if experiment.trainer.precision == "64":
        task.double()  # Lightning converts only after it has loaded a checkpoint, which would be rounded
    recorder = Recorder(cell.curves, experiment)
    header = {"config": cell.config.read_text()}
    header |= {key: value for key, value in data.description().items() if key == "vocabulary_sha256"}
    checkpointer = Checkpointer(cell, experiment, recorder, header)
    watching = [recorder, Progress(recorder, lease), checkpointer]
    if experiment.debug.profile:
        watching.append(Profile(cell.directory / "profile", data.total_steps))
    trainer = make_trainer(experiment, data.validate_every, [*watching, *callbacks])
    record.describe(data, task.model, recorder, trainer)
    if experiment.trainer.compile:
        task.model.compile()  # in place: the names in checkpoints stay clean
    if experiment.logger.wandb and trainer.is_global_zero:
        group, name = experiment.logger.group, experiment.logger.run
        cell_id = f"{cell.name}-seed{experiment.seed}"
        mirror = Mirror(experiment, cell_id, cell.directory, group, name, machine.peak_memory_bytes)
        recorder.listeners.append(mirror)
        record.listeners.append(mirror.finish)

    resume = cell.checkpoint if cell.checkpoint.exists() else None
    trainer.fit(task, data, ckpt_path=resume, weights_only=True)
    if recorder.last_validation != recorder.steps:  # trainer.max_steps fell between two validations
        trainer.validate(task, data, verbose=False)
    if trainer.is_global_zero:
        save_weights(task.model, cell.last, header)
    record.metrics = test_best_and_last(trainer, task, data, recorder, cell)
    record.metrics["train_seconds"] = dict.fromkeys(("best", "last"), round(recorder.seconds, 3))
    record.content["notes"] = task.notes
    if trainer.is_global_zero:
        save_probes(task.observed(data), cell.directory / "probes")


def make_trainer(experiment: Experiment, validate_every: int, callbacks: list[pl.Callback]) -> pl.Trainer:
    """Lightning runs one long epoch of all steps; the recipe's epochs are counted by the task."""
    settings = experiment.trainer
    return pl.Trainer(
        max_epochs=1,
        val_check_interval=validate_every,
        accelerator=settings.accelerator,
        devices=settings.devices,
        num_nodes=settings.nodes,
        strategy="ddp" if settings.processes > 1 else "auto",
        precision=PRECISIONS[settings.precision],
        callbacks=callbacks,
        plugins=[AtomicCheckpoints(), environment(settings)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        detect_anomaly=experiment.debug.anomaly,
    )


def test_best_and_last(
    trainer: pl.Trainer, task: Task, data: ExperimentData, recorder: Recorder, cell: Cell
) -> dict[str, dict[str, float]]:
    """Both models are tested, since papers differ in which of them they report."""
    last = tested(trainer, task, data, recorder.validation)
    best = last
    if recorder.best_step != recorder.steps:
        load_weights(task.model, cell.best)
        best = tested(trainer, task, data, recorder.best)
    return {name: {"best": best[name], "last": last[name]} for name in last}


def tested(trainer: pl.Trainer, task: Task, data: ExperimentData, validation: dict[str, float]) -> dict[str, float]:
    """Every metric of the model at hand; `validation` is what training gave, in the way that it evaluates."""
    data.final = data.final_differs
    found: dict[str, float] = {}
    for split in dict.fromkeys((data.watched, "test")):
        if split == data.watched and not data.final:
            values = validation
        else:
            data.tested = split
            trainer.test(task, data, verbose=False)
            values = task.results_of[split]
        found |= {f"{split}_{name}": value for name, value in values.items()}
    return {**found, **task.finished(data)}
