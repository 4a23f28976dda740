"""Blocks against their equations."""

import math

import pytest
import torch

from highway.blocks.layers import FeedForward, LayerNorm, Sublayer, dropout, sinusoids
from highway.cards.gates import GateOptions
from highway.config.experiment import Gating
from highway.models.transformer import CausalAttention
from highway.models.transformer_xl import RelativeAttention


@pytest.mark.parametrize("width", [16, 128, 512])
def test_unbiased_layer_norm(width: int) -> None:
    """The norm is gain * (x - mean) / (std + 1e-6) + bias with the n - 1 deviation, as in R-Transformer's code."""
    torch.manual_seed(width)
    norm = LayerNorm(width, "unbiased")
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    x = 3 * torch.randn(4, 7, width) + 1
    mean, deviation = x.mean(-1, keepdim=True), x.std(-1, unbiased=True, keepdim=True)
    torch.testing.assert_close(norm(x), norm.weight * (x - mean) / (deviation + 1e-6) + norm.bias, atol=1e-5, rtol=1e-5)


def test_biased_layer_norm_is_torchs() -> None:
    x = torch.randn(2, 3, 8)
    torch.testing.assert_close(LayerNorm(8, "biased")(x), torch.nn.LayerNorm(8)(x))
    torch.testing.assert_close(LayerNorm(8, "biased", 0.5)(x), torch.nn.LayerNorm(8, 0.5)(x))


def test_layer_norm_of_small_numbers() -> None:
    """The norm adds 1e-6 to the deviation, outside the root; the deviation is the unbiased one by default."""
    torch.manual_seed(0)
    x = 1e-3 * torch.randn(50, 16)
    expected = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)
    torch.testing.assert_close(LayerNorm(16)(x), expected, atol=0.01, rtol=0.01)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_sublayer_drops_what_its_function_gives(norm: str) -> None:
    """Dropout acts at the sublayer's rate, in training alone, and not on the input carried past the sublayer."""
    gating = Gating(GateOptions(), {"attention": ()})
    sublayer = Sublayer(torch.nn.Identity(), gating, 1, "attention", 64, LayerNorm(64), norm, 0.3)
    seen: list[torch.Tensor] = []
    sublayer.gate.register_forward_pre_hook(lambda _, inputs: seen.extend(inputs[:2]))
    x = torch.randn(4, 50, 64)
    sublayer(x)
    sublayer.eval()(x)
    carried, dropped, _, whole = seen
    assert torch.equal(carried, x)
    gone = dropped == 0
    assert 0.28 < float(gone.double().mean()) < 0.32
    torch.testing.assert_close(dropped[~gone], whole[~gone] / 0.7, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("gate", ["sdu", "sdu_conv"])
@pytest.mark.parametrize(("norm", "reads"), [("pre", "stream"), ("pre", "normalised"), ("post", "stream")])
def test_one_mask_drops_the_function_and_the_unit(gate: str, norm: str, reads: str) -> None:
    """With `inside_dropout` a sublayer is x + drop(f + unit), and the gradient reaches W2 where the mask is not 0."""
    torch.manual_seed(0)
    gating = Gating(GateOptions(residual=gate, reads=reads, inside_dropout=True), {"attention": (1,)})
    sublayer = Sublayer(torch.nn.Identity(), gating, 1, "attention", 64, LayerNorm(64), norm, 0.25).double()
    sublayer.norm.forward = lambda value: value / 2  # so that the sum can be read
    for weight in sublayer.gate.parameters():
        torch.nn.init.normal_(weight, 0, 0.3)
    x = torch.randn(4, 50, 64, dtype=torch.float64)
    summed = sublayer(x) * (2 if norm == "post" else 1)
    f, read = x / 2 if norm == "pre" else x, x / 2 if reads == "normalised" else x
    opening = torch.sigmoid(sublayer.gate.transform_gate(read))
    both = f + opening * sublayer.gate.transform(read)
    mask = (summed - x).abs() > 1e-9
    torch.testing.assert_close(summed, x + mask * both / 0.75)
    assert 0.73 < mask.double().mean().item() < 0.77
    (gradient,) = torch.autograd.grad(summed.sum(), sublayer.gate.transform.bias)
    torch.testing.assert_close(gradient, (mask * opening / 0.75).sum((0, 1)))
    torch.testing.assert_close(sublayer.eval()(x) * (2 if norm == "post" else 1), x + both)


def test_a_sublayer_without_a_gate_has_nothing_else_to_drop() -> None:
    """With `inside_dropout` the layers that have no gate compute what they do without it."""
    sums = []
    for inside in (True, False):
        gating = Gating(GateOptions(residual="sdu", inside_dropout=inside), {"attention": (2,)})
        sublayer = Sublayer(torch.nn.Identity(), gating, 1, "attention", 64, LayerNorm(64), "pre", 0.25)
        torch.manual_seed(0)
        sums.append(sublayer(torch.randn(2, 5, 64)))
    assert torch.equal(*sums)


@torch.no_grad()
def test_a_gate_reads_the_normalised_stream_and_not_the_memory() -> None:
    gating = Gating(GateOptions(residual="sdu", reads="normalised"), {"attention": (1,)})
    sublayer = Sublayer(torch.nn.Identity(), gating, 1, "attention", 4, LayerNorm(4), "pre", 0.0)
    sublayer.function.forward = lambda reads: reads[:, -6:]
    seen: list[torch.Tensor] = []
    sublayer.gate.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[2]))
    x, memory = torch.randn(2, 6, 4), torch.randn(2, 3, 4)
    sublayer(x, memory)
    torch.testing.assert_close(seen[0], sublayer.norm(x))


def test_sinusoids() -> None:
    table = sinusoids(50, 12)
    for position in (0, 1, 7, 49):
        for i in range(6):
            angle = position / 10000 ** (2 * i / 12)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


@torch.no_grad()
def test_attention_equals_its_equation() -> None:
    torch.manual_seed(0)
    width, heads, length = 12, 3, 5
    attention = CausalAttention(width, heads, 0.0).double().eval()
    x = torch.randn(2, length, width, dtype=torch.float64)
    q, k, v = (
        x @ w.T + b
        for w, b in zip(attention.query_key_value.weight.chunk(3), attention.query_key_value.bias.chunk(3), strict=True)
    )
    expected = torch.zeros_like(x)
    size = width // heads
    for b in range(2):
        for h in range(heads):
            part = slice(h * size, (h + 1) * size)
            for t in range(length):
                scores = torch.stack([q[b, t, part] @ k[b, s, part] / math.sqrt(size) for s in range(t + 1)])
                weights = scores.softmax(0)
                expected[b, t, part] = sum(weights[s] * v[b, s, part] for s in range(t + 1))
    expected = expected @ attention.output.weight.T + attention.output.bias
    torch.testing.assert_close(attention(x), expected)
    materialised = CausalAttention(width, heads, 1e-6).double().train()  # a rate so small that nothing is dropped
    materialised.load_state_dict(attention.state_dict())
    torch.testing.assert_close(materialised(x), expected)


@torch.no_grad()
def test_feed_forward_equals_its_equation() -> None:
    layer = FeedForward(4, 7, 0.5).eval()
    x = torch.randn(3, 4)
    hidden = (x @ layer.inner.weight.T + layer.inner.bias).clamp(min=0)
    torch.testing.assert_close(layer(x), hidden @ layer.outer.weight.T + layer.outer.bias)


@pytest.mark.parametrize("probability", [0.05, 0.15, 0.35, 0.5])
def test_dropout(probability: float) -> None:
    torch.manual_seed(0)
    x = torch.ones(400, 1001, requires_grad=True)
    y = dropout(x, probability, training=True)
    dropped = (y == 0).double().mean().item()
    n = x.numel()
    assert abs(dropped - probability) < 5 * math.sqrt(probability * (1 - probability) / n) + 1 / 131072
    assert y[y != 0].unique().numel() == 1
    assert y[y != 0][0].item() == pytest.approx(1 / (1 - probability), rel=1e-4)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())  # the gradient passes through the same mask
    rows = (y == 0).double().mean(1)  # independent along both dimensions: no row or column stands out
    assert rows.std().item() == pytest.approx(math.sqrt(probability * (1 - probability) / 1001), rel=0.2)
    neighbours = ((y[:, 1:] == 0) & (y[:, :-1] == 0)).double().mean().item()
    assert neighbours == pytest.approx(probability**2, abs=0.003)


def test_dropout_falls_inside_of_attention_and_feed_forward() -> None:
    """Dropout acts in training alone, and only where its rate is above zero."""
    torch.manual_seed(0)
    x, codes = torch.randn(2, 5, 8), torch.randn(6, 8)
    unseen, u = torch.ones(5, 5).triu(1).bool(), torch.zeros(2, 4)
    for rate in (0.0, 0.5):
        relative = RelativeAttention(8, 2, 4, rate)
        for module, extra in (
            (CausalAttention(8, 2, rate), ()),
            (FeedForward(8, 9, rate), ()),
            (relative, (codes, u, u, unseen)),
        ):
            quiet = module.eval()(x, *extra)
            assert torch.allclose(module.train()(x, *extra), quiet, atol=1e-6) == (rate == 0)


def test_dropout_is_repeatable_and_off_in_evaluation() -> None:
    x = torch.randn(7, 5)
    assert dropout(x, 0.3, training=False) is x
    torch.manual_seed(3)
    first = dropout(x, 0.3, training=True)
    torch.manual_seed(3)
    assert torch.equal(first, dropout(x, 0.3, training=True))
