"""Test the stored weights of a finished run again, and add the losses of its test units to its record."""

import math
from pathlib import Path

import torch

from highway.config.experiment import Experiment
from highway.errors import Refused
from highway.files.plain import read_text
from highway.ledger.directory import RunDirectory
from highway.ledger.record import write_record
from highway.run import build, machine
from highway.run.checkpoint import load_weights
from highway.run.probes import save_probes
from highway.train import make_trainer, tested
from highway.use.load import experiment_of

TOLERANCE = 1e-5  # relative, of the test loss: what other batches or threads change by rounding
Units = dict[str, dict[str, torch.Tensor]]


def rescore(record: Path, outputs: Path) -> list[str]:
    """Add the arrays of the test units to a record, and return their names; the record stays sealed.

    Raise Refused if the run has no weights, or if they do not give the test loss of the record.
    """
    directory = RunDirectory(record.resolve())
    result = directory.result()
    if result is None or result["status"] != "finished":
        raise Refused(
            f"{record} is not the directory of a finished run. Name one, such as outputs/TABLE/mini/ROW/seed1."
        )
    if not weights_of(directory):
        raise Refused(f"{record} has no weights in checkpoints/, so it cannot be tested again.")
    experiment = experiment_of(read_text(directory.config), directory)
    experiment.outputs_dir, experiment.trainer.threads = outputs, result["environment"]["threads"]
    with directory.leased():
        metrics, units = tested_again(directory, experiment)
        for which, loss in ((which, values["test_loss"]) for which, values in metrics.items()):
            recorded = result["metrics"]["test_loss"][which]
            if not math.isclose(loss, recorded, rel_tol=TOLERANCE):
                raise Refused(
                    f"{record}: its {which} weights give a test loss of {loss:.7g}, and the record says "
                    f"{recorded:.7g}: the code or the data has changed. The record stays as it was."
                )
        if not units:
            raise Refused(f"{record} is a {experiment.task} run: the losses of its test units are not kept.")
        save_probes(units, directory.path / "probes")
        write_record(directory.path, {key: value for key, value in result.items() if key != "sha256"})
    return sorted(units)


def weights_of(directory: RunDirectory) -> dict[str, Path]:
    """Return the weights that a run still has, of its best and its last step."""
    return {which: path for which, path in (("best", directory.best), ("last", directory.last)) if path.exists()}


def tested_again(directory: RunDirectory, experiment: Experiment) -> tuple[dict[str, dict[str, float]], Units]:
    """Return the test metrics of the weights that the run still has, and the losses of their test units."""
    machine.prepare(experiment.trainer.threads or 1)
    data = build.data(experiment)
    task = build.task(experiment, data.steps_per_epoch, data.total_steps)
    trainer = make_trainer(experiment, data.validate_every, [])
    metrics: dict[str, dict[str, float]] = {}
    units: Units = {}
    for which, weights in weights_of(directory).items():
        load_weights(task.model, weights)
        metrics[which] = tested(trainer, task, data, {})
        units |= {f"test_units_{which}": task.test_units} if task.test_units else {}
    return metrics, units
