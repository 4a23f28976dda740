"""The checks for projects: each passes what is right, and fails what is wrong."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from highway import testing
from highway.cards.gates import GateOptions
from highway.gates.gate import build_gate
from highway.gates.residual import Sum
from highway.models.transformer import TransformerBackbone
from highway.tasks.language import LanguageModelling

SMALL = ["dataset.source=sample", "model.width=16", "model.heads=2", "model.feed_forward=32"]


def highway_gate(x: Tensor, fx: Tensor, reads: Tensor, **weights: Tensor) -> Tensor:
    opened = torch.sigmoid(reads @ weights["transform_gate_weight"].T + weights["transform_gate_bias"])
    return (1 - opened) * x + opened * (reads @ weights["transform_weight"].T + weights["transform_bias"]) + fx


def test_an_equation_is_held_with_its_gradients() -> None:
    module = build_gate("residual", "highway", 4, GateOptions(residual="highway"))
    x, fx, reads = torch.randn(3, 2, 3, 4)
    testing.assert_equation(module, highway_gate, x, fx, reads)
    with pytest.raises(AssertionError):
        testing.assert_equation(
            module, lambda *values, **weights: highway_gate(*values, **weights) + 1e-5, x, fx, reads
        )


def test_a_wrong_gradient_is_found_where_values_agree() -> None:
    class Detached(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + x.detach()

    with pytest.raises(AssertionError):
        testing.assert_equation(Detached(), lambda x: 2 * x, torch.randn(3))


def test_a_loss_is_held_with_its_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = ["dataset=ptb_char", *SMALL]
    testing.assert_loss(overrides, cross_entropy)
    with pytest.raises(AssertionError):
        testing.assert_loss(overrides, lambda logits, targets: 1.0001 * cross_entropy(logits, targets))
    plain = LanguageModelling.loss

    def detached(self: Any, logits: Tensor, targets: Tensor) -> Tensor:
        penalty = logits.square().mean()
        return plain(self, logits, targets) + penalty.detach()

    monkeypatch.setattr(LanguageModelling, "loss", detached)
    with pytest.raises(AssertionError):
        testing.assert_loss(overrides, lambda logits, targets: cross_entropy(logits, targets) + logits.square().mean())


def test_a_look_into_the_future_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    testing.assert_causal(SMALL, length=4)
    forward = TransformerBackbone.forward

    def leaking(self: Any, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        features, state = forward(self, x, state)
        return features + 1e-6 * x.mean(1, keepdim=True), state

    monkeypatch.setattr(TransformerBackbone, "forward", leaking)
    with pytest.raises(AssertionError, match="position 0 reads a later position"):
        testing.assert_causal(SMALL, length=4)


def test_padding_that_is_read_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    small = ["model=encoder_decoder", "dataset=iwslt_pt_en", "trainer=translation", "dataset.source=sample"]
    small += ["model.width=16", "model.heads=2", "model.feed_forward=32"]
    testing.assert_padding_ignored(small)
    monkeypatch.setattr("highway.models.ends.PADDING", -1)
    with pytest.raises(AssertionError):
        testing.assert_padding_ignored(small)


@pytest.mark.usefixtures("tiny")  # a short text
def test_a_run_that_resumes_elsewhere_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = [*SMALL, "trainer.max_steps=4", "trainer.validate_every=2", "trainer.threads=1", "trainer.accelerator=cpu"]
    testing.assert_resumes(few, tmp_path / "right", steps=[3])
    calls = itertools.count()  # a state that no checkpoint has
    monkeypatch.setattr(Sum, "forward", lambda _, x, fx, reads: x + fx * (1 + 1e-3 * next(calls)))
    with pytest.raises(AssertionError):
        testing.assert_resumes(few, tmp_path / "wrong", steps=[3])
