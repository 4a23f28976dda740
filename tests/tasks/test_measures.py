"""A metric with a class of its own is computed on every evaluated split, and tables can show it."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from highway.cards import metrics
from highway.cards.tasks import metrics_of
from highway.config.experiment import Experiment
from highway.run import build
from highway.testing.runs import trained


class Confidence:
    """The mean probability of the likeliest class."""

    counted = ("confidence", "predictions")

    def counts(self, logits: Tensor, targets: Tensor) -> dict[str, Tensor]:
        confidence = logits.softmax(-1).amax(-1).double()
        return {"confidence": confidence.sum(), "predictions": torch.tensor(len(targets))}

    def value(self, counts: dict[str, float]) -> float:
        return counts["confidence"] / counts["predictions"]


@pytest.fixture
def measured() -> Iterator[None]:
    for task in ("classification", "language"):
        about = ("mean confidence", "", "higher", 3)
        metrics.measured(f"confidence_{task}", task, "tests.tasks.test_measures:Confidence", *about)
    yield
    for task in ("classification", "language"):
        del metrics.KINDS[f"confidence_{task}"], metrics.MEASURED[f"confidence_{task}"]
        for split in metrics.SPLITS:
            del metrics.METRICS[f"{split}_confidence_{task}"]


@pytest.mark.usefixtures("measured")
def test_a_measure_of_a_task(experiment: Callable[..., Experiment], tiny: Callable[..., Experiment]) -> None:
    few = ("trainer.max_steps=2", "trainer.validate_every=2", "trainer.threads=1", "budget=smoke")
    digits = experiment("model=gru", "model.width=8", "dataset=mnist", "dataset.side=7", "trainer=pixels", *few)
    _, result = trained(digits)
    assert 0.1 <= result["metrics"]["test_confidence_classification"]["last"] < 0.3
    assert "test_confidence_language" not in result["metrics"]
    assert "test_confidence_classification" in metrics_of("classification", "accuracy", "test")

    described = tiny("trainer.max_steps=2", "trainer.validate_every=2")
    _, result = trained(described)
    assert 0.03 <= result["metrics"]["valid_confidence_language"]["best"] < 0.3
    assert "valid_confidence_language" in metrics_of("language", "bpc", "valid")
    assert set(build.task(described).measures) == {"confidence_language"}
