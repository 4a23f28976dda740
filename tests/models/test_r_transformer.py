"""R-Transformer: its equations, causality and published counts; a LocalRNN has no gate."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from swapped import GatheredWindows
from torch import Tensor, nn

from highway.config.experiment import Experiment
from highway.describe import named_parameters
from highway.run import build
from tests.support.overrides import RESIDUAL_GATES

Compose = Callable[..., Experiment]
RT = ("model=r_transformer", "model.window=3")


@pytest.mark.parametrize("cell", ["gru", "lstm", "rnn"])
@pytest.mark.parametrize("gate", RESIDUAL_GATES)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_causality_by_gradient(tiny: Compose, norm: str, gate: str, cell: str) -> None:
    overrides = (f"gate={gate}", f"model.norm={norm}", f"model.cell={cell}")
    model = build.model(tiny(*RT, *overrides)).double().eval()
    tokens = torch.randint(27, (1, 7))
    embedded = model.embedding(tokens).detach().requires_grad_()
    model.embedding.forward = lambda _: embedded
    features, _ = model(tokens)
    for i in range(7):
        (gradient,) = torch.autograd.grad(features[0, i].pow(2).sum(), embedded, retain_graph=True)
        assert torch.all(gradient[0, i + 1 :] == 0)
        assert torch.all(gradient[0, : i + 1].abs().sum(-1) > 0)


@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.no_grad()
def test_equals_its_equations(tiny: Compose, norm: str) -> None:
    """The model equals its equations, written with torch's own layers.

    The sequence enters without position codes and leaves unnormalised.
    """
    overrides = (f"model.norm={norm}", "model.local_layers=2", "model.norm_deviation=biased", "gate=sdu_tanh")
    model = build.model(tiny(*RT, *overrides)).double().eval()
    torch.manual_seed(0)
    for parameter in model.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))
    tokens = torch.randint(27, (2, 10))
    x = model.embedding(tokens)

    def attention(block: nn.Module, y: Tensor) -> Tensor:
        function = block.attention.function
        q, k, v = (part.view(2, 10, 2, 8).transpose(1, 2) for part in function.query_key_value(y).chunk(3, -1))
        scores = (q @ k.mT / 8**0.5).masked_fill(torch.ones(10, 10).triu(1).bool(), -torch.inf)
        return function.output((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def gated(sublayer: nn.Module, y: Tensor) -> Tensor:
        gate = sublayer.gate
        return torch.tanh(gate.transform_gate(y)) * gate.transform(y)

    for block in model.backbone.blocks:
        feed_forward = block.feed_forward.function
        steps: list[tuple[nn.Module, Callable[[Tensor], Tensor], bool]] = [
            (local, GatheredWindows(local.function).double(), False) for local in block.local
        ]
        steps.append((block.attention, lambda y, block=block: attention(block, y), True))  # type: ignore[misc]
        steps.append(
            (block.feed_forward, lambda y, f=feed_forward: f.outer(F.relu(f.inner(y))), True)  # type: ignore[misc]
        )
        for sublayer, function, has_gate in steps:
            layer_norm = sublayer.norm
            extra = gated(sublayer, x) if has_gate else 0.0
            x = x + function(layer_norm(x)) + extra if norm == "pre" else layer_norm(x + function(x) + extra)
    torch.testing.assert_close(model(tokens)[0], x)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (("model=r_transformer",), 14_213_169),
        (("model=r_transformer", "gate=sdu_tanh"), 17_365_041),
        (("model=r_transformer_word", "dataset=ptb_word"), 2_281_872),
        (("model=r_transformer_word", "dataset=ptb_word", "gate=sdu_sigmoid"), 2_480_016),
        (("model=r_transformer_pixels", "dataset=mnist"), 204_426),
        (("model=transformer_pixels", "dataset=mnist"), 102_026),
        (("model=r_transformer_music", "dataset=nottingham"), 1_420_888),
        (("model=transformer_music", "dataset=nottingham"), 956_248),
    ],
)
def test_parameter_counts_of_the_papers(experiment: Compose, overrides: tuple[str, ...], expected: int) -> None:
    with torch.device("meta"):
        model = build.model(experiment(*overrides))
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


SMALL = ("dataset.source=sample", "model.width=16", "model.feed_forward=32", "model.layers=2", "model.heads=2")


@pytest.mark.parametrize(
    "overrides",
    [
        ("model=r_transformer", "gate=sdu_tanh", "dataset.train={lanes:2,window:9,stride:5,scored:5}"),
        ("model=r_transformer_pixels", "dataset=mnist", "dataset.side=4", "dataset.batch=2"),
        ("model=r_transformer_music", "dataset=nottingham"),
    ],
    ids=["text", "pixels", "music"],
)
def test_no_parameter_is_without_a_gradient(experiment: Compose, overrides: tuple[str, ...]) -> None:
    described = experiment(*overrides, *SMALL)
    task = build.task(described)
    task.learn(build.like_real(described, "cpu")).objective.backward()
    idle = [
        name
        for name, parameter in named_parameters(task.model).items()
        if parameter.grad is None or not parameter.grad.any()
    ]
    assert not idle


def test_no_gate_is_on_a_local_rnn(tiny: Compose) -> None:
    names = [name for name, _ in named_parameters(build.model(tiny(*RT, "gate=sdu_tanh"))).items() if ".gate." in name]
    assert names and all(".attention." in name or ".feed_forward." in name for name in names)


def test_without_local_rnns_it_is_the_transformer_but_for_positions(tiny: Compose) -> None:
    """The names are the same, and so are initial values and features when no position is added."""
    ours = build.model(tiny("model=r_transformer", "model.local_layers=0")).eval()
    transformer = build.model(tiny()).eval()
    transformer.backbone.positions = torch.zeros(8, 16)
    tokens = torch.randint(27, (2, 8))
    assert torch.equal(ours(tokens)[0], transformer(tokens)[0])


def test_local_rnns_that_start_as_copies(tiny: Compose) -> None:
    """Each LocalRNN of a block starts as its first; blocks differ, and no other value changes."""
    several = ("model=r_transformer", "model.layers=2", "model.local_layers=3")
    usual, copies = (
        named_parameters(build.model(tiny(*several, f"model.init_local={init}"))) for init in ("independent", "copies")
    )
    unlike = {name for name in usual if not torch.equal(usual[name], copies[name])}
    parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    assert unlike == {f"blocks.{block}.local.{rnn}.function.{part}" for block in "01" for rnn in "12" for part in parts}
    for name in unlike:
        assert torch.equal(copies[name], usual[name.replace("local.1", "local.0").replace("local.2", "local.0")])
    assert not torch.equal(*(copies[f"blocks.{block}.local.0.function.bias_hh"] for block in "01"))


def test_initial_values(experiment: Compose) -> None:
    """Initial values are those of torch.nn's recurrent networks: both maps and both biases within 1 / sqrt(width)."""
    named = named_parameters(build.model(experiment("model=r_transformer", "dataset.source=sample")))
    for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        drawn = named[f"blocks.1.local.0.function.{part}"].abs().max()
        assert 0.99 / 512**0.5 < drawn <= 1 / 512**0.5
