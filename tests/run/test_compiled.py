"""trainer.compile: one program serves a whole run."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from highway.config.compose import experiment as composed
from highway.config.experiment import Experiment
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.run import build, compiled
from highway.run.compiled import WORTH_COMPILING, FixedShapes, compile_training, mode_of
from highway.testing.runs import StopAt, numbers, trained
from tests.support.overrides import CARRIES, SHORT_LAST

Compose = Callable[..., Experiment]
FEW = ("trainer.max_epochs=2", "gate=sdu_tanh", "model.dropout=0.3")
LANES = "dataset.train={lanes:3,window:12,stride:12,scored:12}"
SMALL = ("model.width=16", "model.layers=2", "budget=smoke", "dataset.source=sample")
FAMILIES: dict[str, tuple[str, ...]] = {
    "transformer": ("gate=sdu_tanh", "model.heads=2", "model.feed_forward=16", LANES),
    "transformer_xl": ("model=transformer_xl", "dataset=ptb_word_memory", "model.heads=2", "model.head_width=8", LANES),
    "r_transformer": ("model=r_transformer", "model.heads=2", "model.feed_forward=16", LANES),
    "rhn": ("model=rhn", "dataset=ptb_word_rhn", "gate=hsg", "layers=none", "model.depth=3", LANES),
    "lstm": ("model=lstm", "dataset=ptb_char_carried", "layers=none", LANES),
    "tcn": ("model=tcn_pixels", "dataset=mnist", "layers=none", "dataset.batch=2"),
    "encoder_decoder": (
        *("model=encoder_decoder", "dataset=iwslt_pt_en", "gate=g1", "layers=none", "dataset.batch=4"),
        *("model.heads=2", "model.feed_forward=16"),
    ),
}


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Count the programs that the compiler receives, and run them unchanged."""
    torch._dynamo.reset()
    counted = CompileCounter()

    def counting(self: FixedShapes, mode: str, dynamic: bool) -> Any:
        return torch.compile(self.eager, backend=counted, dynamic=dynamic)

    monkeypatch.setattr(FixedShapes, "compile", counting)
    yield counted
    torch._dynamo.reset()


def test_a_compiled_run_has_the_same_directory() -> None:
    assert RunDirectory.of(composed(["trainer.compile=max-autotune"])) == RunDirectory.of(composed([]))


@pytest.mark.parametrize(
    ("overrides", "mode"),
    [
        ((), "reduce-overhead"),
        (("trainer.accumulate=2",), "default"),
        (("trainer.devices=2",), None),
        (FAMILIES["encoder_decoder"][:3], "default"),
        (FAMILIES["rhn"][:4], None),
        (("debug.anomaly=true",), None),
        (("trainer.compile=null",), None),
        (("trainer.compile=max-autotune",), "max-autotune"),
    ],
)
def test_auto_suits_the_device_and_the_batches(
    overrides: tuple[str, ...], mode: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "can_compile", lambda: True)
    described = composed([*overrides])
    assert mode_of(described, "cuda") == mode
    if described.trainer.compile == "auto":
        assert mode_of(described, "cpu") is None
        assert mode_of(described, "cuda", WORTH_COMPILING - 1) is None
        monkeypatch.setattr(compiled, "can_compile", lambda: False)
        assert mode_of(described, "cuda") is None


@pytest.mark.parametrize("overrides", [(), ("trainer.devices=2",), FAMILIES["encoder_decoder"][:3]])
def test_a_whole_update_needs_one_gpu_and_one_shape(overrides: tuple[str, ...]) -> None:
    device = "cuda" if overrides else "cpu"
    with pytest.raises(Refused, match=r"needs one GPU, batches of one shape, and .*\. Type trainer\.compile=auto"):
        mode_of(composed([*overrides, "trainer.compile=whole"]), device)


@pytest.mark.parametrize("overrides", [(SHORT_LAST,), CARRIES], ids=["windows", "carried"])
def test_a_short_last_batch_compiles_nothing_anew(tiny: Compose, counter: Any, overrides: tuple[str, ...]) -> None:
    described = tiny(*FEW, *overrides, "trainer.compile=default")
    windows = build.data(described)._windows("train")
    assert len({windows.at(step).inputs.shape for step in range(len(windows))}) == 2, "one window is shorter"
    with torch._dynamo.config.patch(error_on_recompile=True):
        _, result = trained(described)
    assert result["status"] == "finished", result["error"]
    assert counter.frame_count == 1


def test_a_resumed_compiled_run_is_exact(tiny: Compose, counter: Any, tmp_path: Path) -> None:
    overrides = (*FEW, SHORT_LAST, "trainer.compile=default")
    _, whole = trained(tiny(*overrides))
    described = tiny(*overrides).model_copy(update={"outputs_dir": tmp_path / "stopped"})
    trained(described, StopAt(3))
    _, resumed = trained(described)
    assert numbers(resumed) == numbers(whole)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_program_of_every_family(family: str, counter: Any) -> None:
    """Steps of one shape compile once, and compute what the eager model computes."""
    keys = type(composed([*FAMILIES[family]]).model).model_fields
    still = [f"model.{key}=0" for key in keys if key.startswith("dropout")]
    described = composed([*FAMILIES[family], *SMALL, *still])
    torch.manual_seed(0)
    batch = build.like_real(described, "cpu")
    losses: dict[str, list[float]] = {}
    for kind in ("eager", "compiled"):
        task = build.task(described).train()
        optimizer = task.configure_optimizers()
        if kind == "compiled":
            compile_training(task, described, "default")
        for step in range(4):
            optimizer.zero_grad()
            objective = task.learn(batch).objective
            objective.backward()
            task.prepare_gradients()
            optimizer.step()
            losses.setdefault(kind, []).append(objective.item())
            if kind == "compiled" and step == 1:
                programs = counter.frame_count
    assert 0 < programs == counter.frame_count
    assert losses["compiled"] == pytest.approx(losses["eager"], rel=1e-5)


def test_one_program_serves_all_lengths(counter: Any) -> None:
    """One program serves pairs and tunes whose length differs in each batch."""
    described = composed([*FAMILIES["encoder_decoder"], *SMALL])
    task = build.task(described).train()
    compile_training(task, described, "default")
    batch = build.like_real(described, "cpu")
    for rows, source, target in ((4, 9, 7), (4, 5, 6), (3, 8, 10), (4, 9, 7), (1, 6, 6)):
        part = batch._replace(
            source=batch.source[:rows, :source].clone(),
            inputs=batch.inputs[:rows, :target].clone(),
            targets=batch.targets[:rows, :target].clone(),
        )
        task.learn(part).objective.backward()
    assert counter.frame_count == 1


class Overwritten:
    """A program whose outputs the next call overwrites, as CUDA graphs do."""

    def __init__(self) -> None:
        self.features, self.state = torch.zeros(2, 3), torch.zeros(2, 3)

    def __call__(self, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor]]:
        self.features.copy_(x)
        self.state.copy_(x + state)
        return self.features, (self.state,)


def test_a_carried_state_outlives_the_graph_that_gave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FixedShapes, "compile", lambda *_, **__: Overwritten())
    ones = torch.ones(2, 3)
    for mode, kept in (("reduce-overhead", ones), ("default", 2 * ones)):
        model = torch.nn.Identity()
        model.forward = lambda x, state: (x, (state,))  # type: ignore[assignment]
        program = FixedShapes(model, mode, ones.shape, carries=True)
        _, (state,) = program(ones, torch.zeros(2, 3))
        program(ones, ones)
        assert torch.equal(state, kept)
