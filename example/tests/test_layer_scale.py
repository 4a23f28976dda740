from pathlib import Path

import torch
from myproject.layer_scale import LayerScale

from highway.cards.gates import GateOptions
from highway.testing import assert_causal, assert_equation, assert_resumes

SMALL = ["gate=layer_scale", "dataset=counting", "model.width=16", "model.heads=2", "model.feed_forward=32"]


def test_it_computes_its_equation() -> None:
    x, fx = torch.randn(2, 3, 5), torch.randn(2, 3, 5)
    assert_equation(LayerScale(5, GateOptions(residual="layer_scale")), lambda x, fx, reads, a: x + a * fx, x, fx, x)


def test_no_position_reads_a_later_one() -> None:
    assert_causal(SMALL)


def test_a_stopped_run_resumes_exactly(tmp_path: Path) -> None:
    few = ["trainer.max_steps=6", "trainer.validate_every=3", "trainer.threads=1", "trainer.accelerator=cpu"]
    assert_resumes([*SMALL, *few], tmp_path, steps=[4])
