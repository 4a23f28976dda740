"""Cautions about a recipe on this machine: each is logged once, before the first step."""

import logging
from collections.abc import Callable

import pytest

from highway.config.experiment import Experiment
from highway.run import build, cautions

Compose = Callable[..., Experiment]


def test_a_caution_is_logged_once_a_process(
    tiny: Compose, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cautions, "misses_epochs", lambda runs: "it misses epochs")
    monkeypatch.setattr(cautions, "SAID", set())
    with caplog.at_level(logging.WARNING, "highway"):
        for _ in range(2):
            cautions.warn([tiny()])
    assert caplog.messages == ["it misses epochs"]


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
