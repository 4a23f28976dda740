"""Train the first steps of a record again with today's code, and compare the first row of its curve.

A row of training has the mean loss of the updates since the row before. Other code for the same computation may round
otherwise. Size tells rounding from a mistake: for the last batches of the row we also compute the loss without the
update before each. Half of the least that one such update changes in the row is the bound of rounding; an earlier
update that is missing changes more batches of the row.

Any CPU can check the record of another one: random numbers are the same on all, and only rounding differs. Some
recipes amplify rounding within the row by more than an update changes it. Therefore a difference between processors
counts only if the row stays within the bound when all initial weights change by 16 units of their last digit, up or
down at random: as much as sums of some hundred terms differ in another order. It has to stay there in each of four
trials, because a single one of a recipe that amplifies rounding may end close by chance.
"""

import csv
import math
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from highway.config.experiment import Experiment
from highway.data.lanes import lanes_of
from highway.errors import Refused
from highway.files.device import device_name
from highway.files.plain import open_text, read_text
from highway.ledger.directory import RunDirectory
from highway.run.checkpoint import Interrupted
from highway.tasks.states import mapped
from highway.tasks.task import Task, rows_of, step_seed
from highway.train import run
from highway.use.load import experiment_of

EQUAL, ROUNDED, DIFFERENT = "equal to the digit", "equal within rounding", "different from step {}"
MEASURED = 5  # of the last updates before a row, to bound rounding by what they change
RATE_TOLERANCE = 1e-9  # relative, of the learning rate
NUDGES = 4  # trials of other initial weights
LAST_DIGITS = 16 * 2.0**-23  # relative, of a 32-bit number
Row = dict[str, str]  # metric -> its text in curves.csv; also step, epoch and tokens


@dataclass(frozen=True)
class Trained:
    """The first row of a curve, trained again."""

    step: int
    word: str  # EQUAL | ROUNDED | DIFFERENT
    loss: float
    recorded: float
    bound: float  # of rounding
    device: str = ""  # that trained it again

    @property
    def equal(self) -> bool:
        return self.word in (EQUAL, ROUNDED)


class OtherDevice(Refused):
    """Refused because the record was made on a device that this machine lacks."""


class FirstRow(pl.Callback):
    """Stops a run after `step` updates, and measures what one missed update would change in the row of that step.

    nudge: the relative change of each initial weight, up or down at random. trial: the seed of these directions.
    """

    def __init__(self, step: int, nudge: float = 0.0, trial: int = 0) -> None:
        self.step, self.nudge, self.trial = step, nudge, trial
        self.done = False
        self.effect = math.inf  # the least that one of the last updates changes in the mean loss of the row
        self._before: list[Tensor] = []  # the weights before the last update
        self._without: float | None = None  # the summed loss of this batch without the update before it
        self._changes: list[float] = []  # of the summed loss of a batch, by the update before it
        self._units: Any = 0.0
        self._sizes: set[float] = set()  # units of a batch
        self._sum_of_means: Any = 0.0  # of the loss of each batch

    @property
    def mean_over_batches(self) -> float | None:
        """The mean of the losses of the batches, each with the same weight; None if all batches have equal sizes."""
        return float(self._sum_of_means) / self.step if len(self._sizes) > 1 else None

    @torch.no_grad()
    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, Task)
        generator = torch.Generator().manual_seed(self.trial)
        for weight in pl_module.weights if self.nudge else ():
            signs = torch.randint(0, 2, weight.shape, generator=generator) * 2 - 1
            weight.mul_(1 + self.nudge * signs.to(weight.device))

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, _: int) -> None:
        assert isinstance(pl_module, Task)
        first = trainer.global_step < self.step - MEASURED
        self._without = None if first or not self._before else _loss_with(self._before, trainer, pl_module, batch)
        if not first or trainer.global_step == self.step - MEASURED - 1:
            self._before = [weight.detach().clone() for weight in pl_module.weights]

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._units = self._units + outputs["units"]
        self._sizes.add(float(outputs["units"]))
        self._sum_of_means = self._sum_of_means + outputs["nats"] / outputs["units"]
        if self._without is not None:
            self._changes.append(abs(self._without - float(outputs["nats"])))
        if trainer.global_step == self.step:
            self.effect = min(self._changes) / float(self._units)
            self.done = True
            raise Interrupted(f"its first row is at step {self.step}")


@torch.no_grad()
def _loss_with(weights: list[Tensor], trainer: pl.Trainer, task: Task, batch: Any) -> float:
    """Return the summed loss of a training batch with other weights; the task is left as it was."""
    today = [weight.detach().clone() for weight in task.weights]
    states = mapped(Tensor.clone, list(getattr(task, "states", [])))
    _put(weights, task)
    torch.manual_seed(step_seed(task.experiment.seed, trainer.global_step, trainer.global_rank))
    nats, lanes, parts = 0.0, len(batch[0]), min(task.experiment.trainer.accumulate, len(batch[0]))
    with trainer.precision_plugin.train_step_context():
        for part in range(parts):
            task.part = part
            nats += float(task.learn(rows_of(batch, lanes_of(lanes, part, parts))).nats)
    _put(today, task)
    if states:
        task.states = states
    return nats


def _put(weights: list[Tensor], task: Task) -> None:
    for parameter, weight in zip(task.weights, weights, strict=True):
        parameter.copy_(weight)


def train_again(record: Path, result: dict[str, Any], outputs: Path) -> tuple[Trained, Experiment]:
    """Train a record up to the first row of its curve, in a folder of its own; return how that row compares.

    Raise Refused if this machine cannot: no such device, no such data, a timing, or rounding that hides an update.
    """
    name, environment = f"{record.parent.name}/{record.name}", result["environment"]
    if "rows" in result:
        raise Refused(f"{name} is a timing: it measures steps and has no training to compare.")
    if environment.get("processes", 1) > 1:
        raise Refused(f"{name} was trained on {environment['processes']} devices; only records of one can be checked.")
    accelerator = _accelerator(name, result)
    expected = first_row(record / "curves.csv")
    if expected is None:
        raise Refused(f"{name} has no row of training from the second step on to compare.")
    experiment = experiment_of(read_text(record / "config.yaml"), RunDirectory(record))
    experiment.outputs_dir, experiment.logger.wandb = outputs, None
    experiment.trainer = replace(experiment.trainer, threads=environment["threads"], accelerator=accelerator)
    step, of_batches = int(expected["step"]), not result.get("fingerprint")
    diverged = result["status"] == "diverged" and result["steps"] == step
    ours, bound = _trained_row(record, experiment, FirstRow(step), of_batches, diverged)
    device = device_name("cuda" if accelerator == "gpu" else "cpu")
    trained = replace(compared(ours, expected, bound), device=device)
    lower = ", perhaps with ATEN_CPU_CAPABILITY=avx2 here" if device.endswith("AVX512") else ""
    for trial in range(NUDGES if device != result["cost"]["device"] and not trained.equal else 0):
        nudged, _ = _trained_row(record, experiment, FirstRow(step, LAST_DIGITS, trial), of_batches)
        noise = abs(float(nudged["loss"]) - trained.loss)
        if noise > bound:
            raise Refused(
                f"{name}: loss {trained.loss:.7g} at step {step}, recorded {trained.recorded:.7g}; but the last digits "
                f"of its initial weights change that by {noise:.1g}, and a missed update by {2 * bound:.1g}. Check it "
                f"on {result['cost']['device']}{lower}."
            )
    return trained, experiment


def _trained_row(
    record: Path, experiment: Experiment, watch: FirstRow, of_batches: bool, diverged: bool = False
) -> tuple[Row, float]:
    """Train up to the first row, and return that row with the bound of rounding.

    diverged: the record diverged at this row, so training may do so again; losses of any size then count as equal.
    of_batches: give all batches the same weight in the loss, as the rows of records without a fingerprint do. Since
    commit a102d22, which changed what is shown and not what is trained, every unit has the same weight.
    """
    name = f"{record.parent.name}/{record.name}"
    with tempfile.TemporaryDirectory(prefix="highway-check-") as folder:
        directory = RunDirectory(Path(folder) / record.parent.name / record.name)
        outcome = run(experiment, directory, "records.py check", (watch,))
        if not watch.done and not (diverged and outcome == "diverged" and first_row(directory.curves)):
            error = (directory.result() or {}).get("error")
            raise Refused(f"{name}: training it again ended before step {watch.step}: {outcome} ({error}).")
        row = first_row(directory.curves)
    assert row is not None
    if of_batches and watch.mean_over_batches is not None:
        row["loss"] = str(watch.mean_over_batches)
    return row, watch.effect / 2


def _accelerator(name: str, result: dict[str, Any]) -> str:
    """Return the accelerator of this machine on which to check a record: the same GPU, or any processor."""
    device, environment = result["cost"]["device"], result["environment"]
    if torch.cuda.is_available() and device == device_name("cuda"):
        return "gpu"
    without_gpu = environment["precision"] == "32" and environment.get("tf32") is False
    if device == device_name("cpu") or without_gpu or environment["versions"].get("torch", "").endswith("+cpu"):
        return "cpu"
    raise OtherDevice(
        f"{name} was made on {device}: check it on such a device, because others draw other dropout masks."
    )


def first_row(curves: Path) -> Row | None:
    """Return the first row of training after at least two updates; None if there is none."""
    row: Row = {}
    with open_text(curves) as file:
        for line in csv.DictReader(file):
            if line["split"] != "train" or int(line["step"]) < 2:
                continue
            if row and line["step"] != row["step"]:
                break
            row |= {**{key: line[key] for key in ("step", "epoch", "tokens")}, line["metric"]: line["value"]}
    return row or None


def compared(ours: Row, recorded: Row, bound: float) -> Trained:
    """Compare two rows; metrics that only one of them has are left out."""
    shared = ours.keys() & recorded.keys()
    losses = float(ours["loss"]), float(recorded["loss"])
    same = all(ours[key] == recorded[key] for key in shared)
    exact = all(ours[key] == recorded[key] for key in ("step", "epoch", "tokens"))
    rate = math.isclose(*(float(row["learning_rate"]) for row in (ours, recorded)), rel_tol=RATE_TOLERANCE)
    close = exact and rate and abs(losses[0] - losses[1]) <= bound
    word = EQUAL if same else ROUNDED if close else DIFFERENT.format(recorded["step"])
    return Trained(int(recorded["step"]), word, *losses, bound)
