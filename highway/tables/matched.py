"""Widen the feed-forward layer of a model until it has as many parameters as another: a baseline for a gate's own."""

from collections.abc import Sequence
from functools import cache

from highway.config.compose import experiment
from highway.config.experiment import Experiment
from highway.errors import Refused

WIDENED = "model.feed_forward"


def widened(plain: Sequence[str], other: Sequence[str]) -> str:
    """Return the override that gives the model of `plain` the number of parameters that the model of `other` has.

    Each unit of the feed-forward layer adds equally many parameters, so the number can miss by half of them.
    """
    without_seed = (tuple(each for each in run if not each.startswith("seed=")) for run in (plain, other))
    return f"{WIDENED}={_width(*without_seed)}"


@cache
def _width(plain: tuple[str, ...], other: tuple[str, ...]) -> int:
    described = experiment(list(plain))
    width = getattr(described.model, "feed_forward", None)
    if width is None:
        raise Refused(f"parameters_of widens {WIDENED}, which model {described.model.name} does not have.")

    def total(units: int) -> int:
        model = described.model.model_copy(update={"feed_forward": units})
        return parameters(described.model_copy(update={"model": model}))[0]

    before, target = total(width), parameters(experiment(list(other)))[0]
    if target < before:
        raise Refused(f"parameters_of names a model of {target:,} parameters, fewer than this row's {before:,}.")
    return width + round((target - before) / (total(width + 1) - before))


def parameters(described: Experiment) -> tuple[int, int]:
    """Count all parameters and the parameters of gates, on the meta device."""
    import torch

    from highway.describe import parameter_counts
    from highway.run.build import model

    with torch.device("meta"):
        counts = parameter_counts(model(described))
    return counts["total"], counts["gate"]
