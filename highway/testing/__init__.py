"""Checks for the tests of a project: a gate or a loss against its equation, causality, padding, exact resume.

from highway.testing import assert_causal, assert_equation, assert_loss, assert_padding_ignored, assert_resumes
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.cards.datasets import PADDING
from highway.config import project
from highway.config.compose import experiment
from highway.describe import named_parameters
from highway.run import build
from highway.testing.runs import assert_resumes_exactly, trained

project.load()


def assert_equation(module: nn.Module, equation: Callable[..., Tensor], *inputs: Tensor) -> None:
    """Check that a module computes `equation(*inputs, **parameters)`, and that all gradients agree.

    Parameters are drawn anew, so that a gate which starts closed is not tested closed; a dot in a parameter's name
    becomes an underscore. The comparison is in float64.
    """
    module = module.double().eval()
    parameters = dict(named_parameters(module))
    with torch.no_grad():
        for parameter in parameters.values():
            parameter.copy_(torch.randn_like(parameter))
    inputs = tuple(value.detach().double().requires_grad_() for value in inputs)
    named = {name.replace(".", "_"): parameter for name, parameter in parameters.items()}
    actual, expected = module(*inputs), equation(*inputs, **named)
    torch.testing.assert_close(actual, expected)
    weights = torch.randn_like(expected)
    leaves = [*inputs, *parameters.values()]
    gradients = (
        torch.autograd.grad((output * weights).sum(), leaves, allow_unused=True, materialize_grads=True)
        for output in (actual, expected)
    )
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


def assert_loss(overrides: Sequence[str], equation: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Check the training loss of a language model: `equation` of logits (N, V) and symbols (N), with its gradient."""
    task = build.task(experiment(overrides))
    logits, targets = torch.randn(6, 5, dtype=torch.float64, requires_grad=True), torch.randint(5, (6,))
    actual, expected = task.loss(logits, targets), equation(logits, targets)
    torch.testing.assert_close(actual, expected)
    gradients = (torch.autograd.grad(loss, logits)[0] for loss in (actual, expected))
    torch.testing.assert_close(*gradients)


def assert_causal(overrides: Sequence[str], length: int = 9) -> None:
    """Check by gradient that no position of the backbone of this experiment reads a later one."""
    described = experiment(overrides)
    backbone = build.model(described).backbone.double().eval()
    x = torch.randn(1, length, described.model.width, dtype=torch.float64, requires_grad=True)
    features, _ = backbone(x, None)
    for position in range(length):
        (gradient,) = torch.autograd.grad(features[0, position].pow(2).sum(), x, retain_graph=True)
        later = gradient[0, position + 1 :].abs().max() if position + 1 < length else 0.0
        assert later == 0, f"position {position} reads a later position"
        assert gradient[0, position].abs().max() > 0, f"position {position} does not read itself"


@torch.no_grad()
def assert_padding_ignored(overrides: Sequence[str], tolerance: float = 1e-8) -> None:
    """Check that padding after the sentences changes no output of the encoder-decoder of this experiment."""
    model = build.model(experiment(overrides)).double().eval()
    source, target = (torch.randint(PADDING + 1, 20, (2, length)) for length in (6, 5))
    padded, longer = (F.pad(part, (0, 3), value=PADDING) for part in (source, target))
    torch.testing.assert_close(model(padded, longer)[:, :5], model(source, target), rtol=tolerance, atol=tolerance)


def assert_resumes(overrides: Sequence[str], folder: Path, steps: Sequence[int]) -> None:
    """Check that a run which is stopped at each of these steps ends as the undisturbed run does, bit for bit."""
    whole, result = trained(experiment([*overrides, f"outputs_dir={folder / 'whole'}"]))
    assert_resumes_exactly(experiment([*overrides, f"outputs_dir={folder / 'stopped'}"]), steps, whole, result)
