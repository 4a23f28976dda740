"""Missing kernels of a processor are found by trying them; the same mathematics then runs another way."""

import copy
import logging
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor

from highway.blocks import micro_layers, processor, products
from highway.config.experiment import Experiment
from highway.models import recurrent
from highway.run import build, cautions
from highway.testing.runs import trained

Compose = Callable[..., Experiment]


class StopAfter(pl.Callback):
    """Interrupts a run after a step, as Ctrl-C does."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step == self.step:
            signal.raise_signal(signal.SIGINT)


PROBE = """
import torch
from highway.blocks.processor import bf16_factor, lstm_trains_in, packs
torch.set_num_threads(1)
print(packs(torch.float32), packs(torch.bfloat16), lstm_trains_in(torch.bfloat16), bf16_factor() > 0)
"""


@pytest.fixture
def lesser(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pretend that oneDNN refuses every packed product and every LSTM, as it does in bf16 without AVX-512."""

    def refuse(*_: Any) -> Any:
        raise RuntimeError("could not create a primitive descriptor")

    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", refuse)
    monkeypatch.setattr(processor.nn.LSTM, "forward", refuse)
    cached = (processor.packs, processor.lstm_trains_in, products.rate)
    for function in cached:
        function.cache_clear()
    monkeypatch.setattr(products, "CHOSEN", {})
    yield
    for function in cached:
        function.cache_clear()


def test_what_is_missing_is_found_out(lesser: None) -> None:
    assert not processor.packs(torch.float32) and not processor.lstm_trains_in(torch.bfloat16)
    assert products.rate(torch.bfloat16) == 0 and products.choice(torch.bfloat16) == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_product_needs_no_packed_matrix(lesser: None, dtype: torch.dtype) -> None:
    matrix, x, bias = torch.randn(7, 5, dtype=dtype), torch.randn(3, 5, dtype=dtype), torch.randn(7, dtype=dtype)
    within = 1e-6 if dtype == torch.float32 else 0.05
    torch.testing.assert_close(products.prepared(matrix, 3, bias)(x), x @ matrix.T + bias, rtol=within, atol=within)


def test_an_lstm_without_a_bf16_kernel_trains_in_fp32(experiment: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    """The LSTM equals the network outside autocast, bit for bit, in any precision of its input and state."""
    overrides = ("model=lstm", "model.width=12", "dataset=ptb_word_carried", "dataset.source=sample", "layers=none")
    layer = build.model(experiment(*overrides)).backbone.layers[0]
    same, x = copy.deepcopy(layer), torch.randn(3, 5, 12)
    state = (torch.randn(3, 12), torch.randn(3, 12))
    monkeypatch.setattr(recurrent, "lstm_trains_in", lambda dtype: False)
    expected, after = same(x.bfloat16().float(), tuple(part.bfloat16().float() for part in state))
    with torch.autocast("cpu", torch.bfloat16):
        actual, later = layer(x.bfloat16(), tuple(part.bfloat16() for part in state))
    expected.sum().backward()
    actual.sum().backward()
    assert actual.dtype == torch.float32 and torch.equal(actual, expected)
    assert all(torch.equal(part, reference) for part, reference in zip(later, after, strict=True))
    for part, reference in zip(layer.parameters(), same.parameters(), strict=True):
        assert torch.equal(part.grad, reference.grad)


def test_the_probe_answers_on_a_lesser_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe finds that AVX2 has neither packed bf16 products nor an LSTM in bf16."""
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    said = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True).stdout.split()
    assert said[1:] == ["False", "False", "True"]


def test_trying_draws_no_random_numbers() -> None:
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    for probe in (processor.packs, processor.lstm_trains_in):
        probe.cache_clear()
        probe(torch.bfloat16)
    processor.bf16_factor.cache_clear()
    processor.bf16_factor()
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("first", ["float32", "bfloat16"])
def test_the_choice_by_speed_stays_with_a_run(experiment: Compose, monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    """The first start measures; a resumed run uses the choice in its checkpoint, even if another is faster by then."""
    overrides = ("model=rhn", "dataset=ptb_word_rhn", "dataset.source=sample", "optimizer=sgd_rhn", "budget=smoke")
    few = ("model.depth=2", "model.width=16", "trainer.precision=bf16", "trainer.max_steps=3", "trainer.threads=1")
    described = experiment(*overrides, *few, "trainer.validate_every=3", "trainer.accelerator=cpu")
    other = {"float32": "bfloat16", "bfloat16": "float32"}[first]
    monkeypatch.setattr(products, "choice", lambda lower: getattr(torch, first))
    trained(described, StopAfter(1))
    monkeypatch.setattr(products, "choice", lambda lower: getattr(torch, other))
    seen: list[torch.dtype] = []

    def watched(matrix: Tensor, *extra: Any) -> Any:
        seen.append(matrix.dtype)
        return products.prepared(matrix, *extra)

    monkeypatch.setattr(micro_layers, "prepared", watched)
    _, result = trained(described)
    assert result["status"] == "finished" and result["steps"] == 3
    assert (torch.bfloat16 in seen) == (first == "bfloat16")


@pytest.mark.parametrize(("factor", "says"), [(0.6, False), (1.05, False), (14.8, True)])
def test_slow_bf16_is_said_with_its_factor(
    tiny: Compose, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, factor: float, says: bool
) -> None:
    monkeypatch.setattr(cautions, "bf16_factor", lambda: factor)
    monkeypatch.setattr(cautions, "SAID", set())
    with caplog.at_level(logging.WARNING, "highway"):
        cautions.warn([tiny("trainer.precision=32")])
        assert not caplog.messages
        for _ in range(2):  # warns once per process
            cautions.warn([tiny("trainer.precision=32"), tiny("trainer.precision=bf16")])
    expected = f"took {factor:.1f} times as long as in fp32; trainer.precision=32 is the faster choice here."
    assert [message.endswith(expected) for message in caplog.messages] == [True] * says


@pytest.mark.parametrize(
    ("gpu", "overrides", "says"),
    [
        (True, ("model=lstm", "model.layers=2", "trainer.precision=bf16"), True),
        (True, ("model=lstm", "model.layers=1", "trainer.precision=bf16"), False),
        (True, ("model=gru", "model.layers=2", "trainer.precision=bf16"), False),
        (True, ("model=lstm", "model.layers=2", "trainer.precision=32"), False),
        (False, ("model=lstm", "model.layers=2", "trainer.precision=bf16"), False),
    ],
)
def test_a_stacked_lstm_in_bf16_on_a_gpu_is_said(
    experiment: Compose, monkeypatch: pytest.MonkeyPatch, gpu: bool, overrides: tuple[str, ...], says: bool
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    monkeypatch.setattr(cautions, "slow_precision", lambda: None)
    described = experiment("dataset=ptb_char_carried", *overrides)
    assert ("lstm" in cautions.cautions([described])) == says


def test_a_plateau_that_misses_epochs_is_told(tiny: Compose) -> None:
    """The schedule looks at validations at the end of an epoch alone."""
    plateau = ("dataset.source=sample", "optimizer.schedule=plateau", "trainer.max_epochs=10")
    epoch = build.data(tiny(*plateau)).steps_per_epoch

    def said(every: int | str, *more: str) -> str | None:
        return cautions.misses_epochs([tiny(*plateau, f"trainer.validate_every={every}", *more)])

    divisor = max(number for number in range(1, epoch) if epoch % number == 0)
    assert said("null") is said(epoch) is said(divisor) is None
    assert (
        f"it sees 5 of 10 epochs. To let it see all, type trainer.validate_every=null or a divisor of {epoch}."
        in str(said(2 * epoch))
    )
    assert "it sees 0 of 10 epochs" in str(said(10 * epoch + 1)) and "it sees 0 of 10 epochs" in str(said(epoch - 1))
    assert said(2 * epoch, "optimizer.plateau.after_epoch=10") is None, "the run ends before the schedule begins"
    assert said(2 * epoch, "optimizer.schedule=constant") is None
