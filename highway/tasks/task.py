"""The base class of all tasks: optimiser and schedule, a seed for every update, clipping, and evaluation by counts.

An update runs these hooks, in this order. Lightning calls them; the callbacks are in highway/run/. A callback that
the configuration chooses comes before ours in each hook, so that a checkpoint has what it changed.

    Recorder.on_train_batch_start          notes whether a row of the curve follows
    Task.on_train_batch_start              seed and learning rate of the update, gradients to zero; start_epoch()
    Task.training_step                     learn() each part of the batch, with its backward pass
                                           (Lightning runs the backward pass of the last part)
    Recorder.on_before_optimizer_step      norms of the gradient and of the gates, if a row of the curve follows
    Task.configure_gradient_clipping       weight decay, then clipping
                                           (the optimiser changes the weights)
    Recorder.on_train_batch_end            counts, a row of the curve, divergence
    Progress.on_train_batch_end            the progress line and the lease
    Checkpointer.on_train_batch_end        a checkpoint, if one is due and no validation follows

After every `validate_every` updates, a validation follows.

    Progress.on_validation_start           the time of the validation, for the estimate of what is left
    Task.on_validation_epoch_start         counts to zero
    Task.validation_step                   score() each batch of each split
    Task.on_validation_epoch_end           results() of the splits; at the end of an epoch, the schedule sees the loss
    Recorder.on_validation_end             rows of the curve, the best epoch, divergence
    Progress.on_validation_end             the progress line
    Checkpointer.on_validation_end         the best weights, a checkpoint
"""

import hashlib
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from highway.cards.card import loaded
from highway.cards.metrics import measures_of
from highway.config.experiment import Experiment
from highway.data.batches import ExperimentData, lanes_of
from highway.describe import flat, named_parameters, probes_of
from highway.tasks.optimisation import build_optimizer, prepare_gradients, schedule_of


class Learnt(NamedTuple):
    """The result of a training batch: the objective to differentiate, and the counts of the curve's training loss.

    The curve shows the nats of what is scored, without label smoothing or the penalties that a loss of your own adds.
    """

    objective: Tensor  # the loss, summed or averaged as the recipe says
    nats: Tensor  # sum over the scored symbols, pixels' labels or steps
    scored: Tensor | float  # their number


class Measure(Protocol):
    """A metric of predictions, computed from sums over a split; `measured` in highway/cards/metrics.py adds it."""

    counted: tuple[str, ...]  # names of the sums

    def counts(self, logits: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Return the sums over a batch, from logits (N, classes) and the right classes (N)."""

    def value(self, counts: dict[str, float]) -> float:
        """Compute the metric from the sums over a split."""


def rows_of(batch: Any, rows: slice) -> Any:
    """Return a batch with only these rows of its tensors; its other fields, which describe the whole batch, stay."""
    return type(batch)(*(field[rows] if isinstance(field, Tensor) else field for field in batch))


class Task(pl.LightningModule):
    """A Lightning module that trains and evaluates a model.

    A subclass implements `learn`, the loss of a training batch, and `score`, which adds to the counts of an evaluation.
    """

    counted: tuple[str, ...] = ("nats", "scored")  # names of an evaluation's counts
    lengths_vary = False  # True if training batches differ in length
    devices = 1  # number of devices of the run, once a trainer has the task
    whole: Any = None  # with trainer.compile=whole, the WholeUpdates that run updates as CUDA graphs
    in_graph = False  # True while `whole` runs the update
    row_follows = False  # True if a row of the curve shows the gradient of the update
    replays = False  # True if torch.compile replays parts of an update as CUDA graphs

    def __init__(self, model: nn.Module, experiment: Experiment, steps_per_epoch: int, total_steps: int) -> None:
        super().__init__()
        self.model: Any = model
        self.experiment = experiment
        self.steps_per_epoch = steps_per_epoch
        self.total_steps = total_steps
        self.schedule = schedule_of(experiment.optimizer, total_steps, experiment.schedule)
        self.notes: dict[str, Any] = {}  # entries of result.json that are not numbers
        self.results_of: dict[str, dict[str, float]] = {}  # split -> metrics of its last evaluation
        self.states: list[Any] = [None] * experiment.trainer.accumulate  # carried state, for the lanes of each part
        self.part = 0  # the part of the batch that is being learnt, with trainer.accumulate above 1
        measures = measures_of(experiment.dataset_card.task).items()
        self.measures: dict[str, Measure] = {kind: loaded(code)() for kind, code in measures}

    # For subclasses to implement or extend

    def learn(self, batch: Any) -> Learnt:
        """Compute the loss of a training batch, or of a part of it."""
        raise NotImplementedError

    def start_epoch(self) -> None:
        """Prepare for the first update of an epoch."""

    def loss_metrics(self, loss: float) -> dict[str, float]:
        """Return a mean loss in nats under each of its names, converted where needed."""
        return {"loss": loss}

    def tokens(self, batch: Any) -> int:
        """Return the number of symbols that a batch trains on, over all devices."""
        raise NotImplementedError

    def score(self, batch: Any) -> None:
        """Evaluate a batch: add its counts with `add`, and hand the predictions to `measure`."""
        raise NotImplementedError

    def results(self, counts: dict[str, float]) -> dict[str, float]:
        """Compute the metrics of a split from its counts; the keys are kinds of metric."""
        measured = {kind: measure.value(counts) for kind, measure in self.measures.items()}
        return {**self.loss_metrics(counts["nats"] / counts["scored"]), **measured}

    def final_metrics(self, data: ExperimentData) -> dict[str, float]:
        """Compute further metrics of a trained model; called for the last and for the best checkpoint."""
        return {}

    def figure_arrays(self, data: ExperimentData) -> dict[str, dict[str, Tensor]]:
        """Return arrays of a trained model for figures: name of the measurement -> location in the model -> array."""
        return probes_of(self.model)

    # Training

    def setup(self, stage: str) -> None:
        self.devices = self.trainer.world_size

    @property
    def data(self) -> ExperimentData:
        return self.trainer.datamodule  # type: ignore[attr-defined]

    @cached_property
    def weights(self) -> list[nn.Parameter]:
        """The parameters, in the order in which checkpoints number them."""
        return list(named_parameters(self.model).values())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return build_optimizer(self.weights, self.experiment.optimizer)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Seed each update by its number, so that a resumed run needs no stored RNG state; set its learning rate."""
        seed_generators(step_seed(self.experiment.seed, self.global_step, self.global_rank), self.device)
        rate = self.schedule.rate(self.global_step, self.global_step // self.steps_per_epoch)
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = rate
            for weight in group["params"]:  # zero_grad does the same within a range of torch's profiler
                weight.grad = None
        if self.global_step % self.steps_per_epoch == 0:
            self.start_epoch()
        self.in_graph = self.whole is not None and not self.row_follows and self.whole.fits(batch)
        if self.replays:
            torch.compiler.cudagraph_mark_step_begin()

    def optimizer_zero_grad(self, *_: Any) -> None:
        """Do nothing: on_train_batch_start zeroes gradients before the first part; Lightning would do so too late."""

    def training_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        """Compute the loss of a batch part by part, and run each backward pass but the last, which Lightning runs.

        The objective of each part is scaled so that the gradients of all parts add up to that of the batch. On several
        devices the gradients are averaged once, in the backward pass of the last part.
        """
        if self.in_graph:
            counts = self.whole(batch)
            return {"loss": counts["nats"], **counts, "tokens": self.tokens(batch)}
        nats: Tensor | float = 0.0
        scored: Tensor | float = 0.0
        parts = min(self.experiment.trainer.accumulate, len(batch[0]))
        for part in range(parts):
            self.part = part
            learnt = self.learn(rows_of(batch, lanes_of(len(batch[0]), part, parts)))
            nats, scored = nats + learnt.nats.detach().double(), scored + learnt.scored
            if part + 1 < parts:
                learnt.objective.backward()
        return {"loss": learnt.objective, "nats": nats, "scored": scored, "tokens": self.tokens(batch)}

    def backward(self, loss: Tensor, *arguments: Any, **more: Any) -> None:
        if not self.in_graph:
            super().backward(loss, *arguments, **more)

    def optimizer_step(self, epoch: int, batch_idx: int, optimizer: Any, optimizer_closure: Any = None) -> None:
        """Compute the gradient and change the weights; a graph does both in `training_step`."""
        if self.in_graph:
            optimizer_closure()
        else:
            optimizer.step(closure=optimizer_closure)

    def configure_gradient_clipping(self, optimizer: torch.optim.Optimizer, *_: Any, **__: Any) -> None:
        """Clip here: Lightning refuses to clip for a fused optimiser in bf16, although nothing needs unscaling."""
        self.prepare_gradients()

    def prepare_gradients(self) -> None:
        """Add weight decay to the gradients, then clip them."""
        prepare_gradients(self.weights, self.experiment.optimizer)

    # Evaluation: sums over everything that is scored, so that the result does not depend on the batches

    def start_evaluation(self) -> None:
        """Set all counts to zero."""
        names = [*self.counted, *(name for measure in self.measures.values() for name in measure.counted)]
        self.counts = {name: torch.zeros((), dtype=torch.float64, device=self.device) for name in names}

    def add(self, **counts: Tensor | int) -> None:
        """Add to the counts of the current evaluation."""
        for name, count in counts.items():
            self.counts[name] += count.double() if isinstance(count, Tensor) else count

    def measure(self, logits: Tensor, targets: Tensor) -> None:
        """Add the counts of the metrics that cards declare, from logits (N, classes) and the right classes (N)."""
        for measure in self.measures.values():
            self.add(**measure.counts(logits, targets))

    def _finish_evaluation(self, split: str) -> None:
        reduce = self.trainer.strategy.reduce
        self.results_of[split] = self.results(
            {name: float(reduce(count, reduce_op="sum")) for name, count in self.counts.items()}
        )

    def on_validation_epoch_start(self) -> None:
        self.start_evaluation()
        self._split = 0

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._finish_before(dataloader_idx)
        self.score(batch)

    def _finish_before(self, split: int) -> None:
        """Finish the evaluations of all splits before this one; a device may have no batch of some splits."""
        while self._split < split:
            self._finish_evaluation(self.data.curves[self._split])
            self.start_evaluation()
            self._split += 1

    def on_validation_epoch_end(self) -> None:
        self._finish_before(len(self.data.curves) - 1)
        self._finish_evaluation(self.data.curves[-1])
        if self.trainer.state.fn == "fit" and self.global_step % self.steps_per_epoch == 0:
            self.schedule.epoch_ended(self.results_of[self.data.watched]["loss"])

    def on_test_epoch_start(self) -> None:
        self.start_evaluation()

    def test_step(self, batch: Any, batch_idx: int) -> None:
        self.score(batch)

    def on_test_epoch_end(self) -> None:
        self._finish_evaluation(self.data.tested)

    # Checkpoints: state beyond weights, optimiser and position

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        weights = self.model.state_dict()
        checkpoint["state_dict"] = {f"model.{flat(name)}": tensor for name, tensor in weights.items()}
        checkpoint["task"] = {"schedule": self.schedule.state_dict()}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.schedule.load_state_dict(checkpoint["task"]["schedule"])
        weights = checkpoint["state_dict"]
        names = self.model.state_dict()
        checkpoint["state_dict"] = {f"model.{name}": weights[f"model.{flat(name)}"] for name in names}


def seed_generators(seed: int, device: torch.device) -> None:
    """Seed the generators that an update draws from. torch.manual_seed would take a millisecond to look for others."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(seed)


def step_seed(seed: int, step: int, rank: int) -> int:
    """Return the random seed of an update on a device."""
    digest = hashlib.sha256(f"{seed}/{step}/{rank}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
