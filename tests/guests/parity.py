"""A toy task: is the number of ones in a row of bits odd? It has no vocabulary, no validation split, a summed loss."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.cards.datasets import DatasetCard
from highway.cards.tasks import TaskCard
from highway.config.experiment import Experiment
from highway.data.batches import ExperimentData, TrainingBatches
from highway.keys.schema import Written, choice, key, number
from highway.tasks.task import Learnt, Task

if TYPE_CHECKING:
    from highway.models.backbone import Backbone


class ParityDataset(Written):
    name: str = "parity"
    form: str = "bits"
    source: str = choice("sample", "files")
    length: int = number(6, 1)
    batch: int = number(8, 1)
    metric: str = key("accuracy", names_run=False)

    @property
    def longest_text(self) -> int:
        return self.length

    def fits(self, experiment: Experiment) -> None:
        pass


class Rows(NamedTuple):
    bits: Tensor  # (B, T, 1)
    odd: Tensor  # (B,)


class Read(NamedTuple):
    splits: dict[str, Rows]


def streams(dataset: ParityDataset, data_dir: Path, cache_dir: Path) -> Read:
    splits = {}
    for seed, (split, count) in enumerate({"train": 64, "test": 32}.items()):
        bits = torch.randint(2, (count, dataset.length), generator=torch.Generator().manual_seed(seed))
        splits[split] = Rows(bits[..., None].float(), bits.sum(1) % 2)
    return Read(splits)


class Batches:
    def __init__(self, rows: Rows, batch: int) -> None:
        self.rows, self.batch = rows, batch

    def __len__(self) -> int:
        return len(self.rows.odd) // self.batch

    def at(self, position: int) -> Rows:
        start = position % len(self) * self.batch
        return Rows(*(part[start : start + self.batch] for part in self.rows))

    def __iter__(self) -> Iterator[Rows]:
        return map(self.at, range(len(self)))


class ParityData(ExperimentData):
    def __init__(self, experiment: Experiment, read: Read) -> None:
        super().__init__(experiment)
        self.streams = read
        self.steps_per_epoch = len(self._batches("train"))

    @staticmethod
    def like_real(experiment: Experiment, device: str) -> Rows:
        dataset = experiment.dataset
        shape = (dataset.batch, dataset.length, 1)
        return Rows(torch.rand(shape, device=device), torch.randint(2, shape[:1], device=device))

    def description(self) -> dict[str, Any]:
        return {**super().description(), "sha256": {}}

    def _batches(self, split: str) -> Batches:
        return Batches(self.streams.splits[split], self.experiment.dataset.batch)

    def train_dataloader(self) -> TrainingBatches:
        return TrainingBatches(self._batches("train"), self.total_steps)

    def evaluated(self, split: str) -> Batches:
        return self._batches(split)


class LastOfAll(nn.Module):
    """The ends of the model: read one value at every position, and predict a class at the last."""

    def __init__(self, experiment: Experiment, backbone: "Backbone") -> None:
        super().__init__()
        width = experiment.model.width
        self.value = nn.Linear(1, width)
        self.backbone = backbone
        self.classes = nn.Linear(width, 2)

    def forward(self, bits: Tensor) -> Tensor:
        features, _ = self.backbone(self.value(bits), None)
        return self.classes(features[:, -1])


class Parity(Task):
    counted = ("nats", "right", "scored")

    def tokens(self, batch: Rows) -> int:
        return batch.bits.numel()

    def learn(self, batch: Rows) -> Learnt:
        total = F.cross_entropy(self.model(batch.bits), batch.odd, reduction="sum")
        return Learnt(1000 * total, total, len(batch.odd))

    def score(self, batch: Rows) -> None:
        logits = self.model(batch.bits)
        nats = F.cross_entropy(logits, batch.odd, reduction="sum")
        self.add(nats=nats, right=(logits.argmax(-1) == batch.odd).sum(), scored=len(batch.odd))

    def results(self, counts: dict[str, float]) -> dict[str, float]:
        return {**super().results(counts), "accuracy": counts["right"] / counts["scored"]}


HERE = "tests.guests.parity"
TASK = TaskCard(
    code=f"{HERE}:Parity",
    equation="-1000 log p(odd | bits)",
    description="Say whether the number of ones is odd.",
    dataset_keys=ParityDataset,
    data=f"{HERE}:ParityData",
    ends=f"{HERE}:LastOfAll",
    command="none",
)
DATASET = DatasetCard(HERE, "parity", {"bits": "bits"}, watched="test")
