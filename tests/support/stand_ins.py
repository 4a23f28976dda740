"""Stand-ins for a model, a contender that is timed, and a trainer."""

import time
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from highway.config.experiment import Experiment
from highway.data.windows import TextBatch
from highway.models.initial import LikeTorch, initialise
from highway.timing.stopwatch import Contender

BATCH = TextBatch(torch.zeros(2, 3), torch.zeros(2, 3), 0)


class Stateful(nn.Module):
    """A running sum of embeddings: the simplest model whose state matters."""

    def __init__(self, described: Experiment) -> None:
        super().__init__()
        self.embedding = nn.Embedding(described.dataset.vocabulary_size, 8)
        initialise(self, described.seed, LikeTorch(1.0))

    def forward(self, tokens: torch.Tensor, state: Any, *_: Any) -> tuple[torch.Tensor, Any]:
        summed = 0.01 * self.embedding(tokens).cumsum(1) + (0 if state is None else state[0])
        return summed, (summed[:, -1:],)

    def logits(self, features: torch.Tensor) -> torch.Tensor:
        return features @ self.embedding.weight.T


def contender(name: str, log: list[str]) -> Contender:
    """Return a contender whose steps write its name into the log."""

    def step(batch: TextBatch) -> torch.Tensor:
        log.append(name)
        return torch.zeros(())

    return Contender(name, step, step, 1)


def trainer(processes: int, external: bool = False) -> Any:
    """Return a stand-in for a trainer, with the attributes that other_processes read."""
    environment = SimpleNamespace(creates_processes_externally=external, main_address="127.0.0.1", main_port=1)
    return SimpleNamespace(
        world_size=processes,
        strategy=SimpleNamespace(cluster_environment=environment),
        _signal_connector=SimpleNamespace(),
    )


def waits() -> None:
    """Wait for another process."""
    time.sleep(600)


def fails() -> str:
    """End as a run that has failed."""
    return "failed"
