"""Transformer-XL: equations, memory, evaluation at other lengths, published counts, parity with the public model."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from highway.config.experiment import Experiment
from highway.describe import named_parameters
from highway.models import transformer_xl
from highway.models.transformer_xl import RelativeAttention, shifted
from highway.run import build

Compose = Callable[..., Experiment]
SMALL = (
    "model=transformer_xl",
    "dataset=enwik8",
    "dataset.source=sample",
    "model.width=16",
    "model.heads=2",
    "model.head_width=6",
    "model.feed_forward=24",
    "model.layers=3",
    "model.init_deviation=0.3",
)


def cut(length: int, memory: int, **added: Any) -> str:
    extra = "".join(f",{key}:{value}" for key, value in added.items())
    return f"{{lanes:2,window:{length},stride:{length},scored:{length},memory:{memory}{extra}}}"


@pytest.fixture
def small(experiment: Compose) -> Callable[..., Any]:
    """Return a function that builds a model in double precision and evaluation mode.

    Its weights are large enough to matter.
    """

    def built(length: int, memory: int, *overrides: str, **extra: Any) -> Any:
        described = experiment(*SMALL, f"dataset.evaluation={cut(length, memory, **extra)}", *overrides)
        return build.model(described).double().eval()

    return built


def run(model: Any, tokens: Tensor, length: int) -> Tensor:
    """Compute the logits segment after segment, carrying the memory."""
    state, outputs = None, []
    for start in range(0, tokens.shape[1], length):
        features, state = model(tokens[:, start : start + length], state)
        outputs.append(model.logits(features))
    return torch.cat(outputs, dim=1)


# The equations


@pytest.mark.parametrize(("length", "memory"), [(1, 0), (4, 0), (3, 5), (5, 2)])
def test_attention_is_its_equation(length: int, memory: int) -> None:
    """Attention equals Eqs. 10-14, pair by pair."""
    heads, width, keys = 2, 6, memory + length
    attention = RelativeAttention(10, heads, width, 0.0).double()
    reads = torch.randn(3, keys, 10, dtype=torch.double)
    codes = torch.randn(keys, 10, dtype=torch.double)  # indexed by distance
    u, v = torch.randn(2, heads, width, dtype=torch.double)
    distances = torch.cat((codes.flip(0), torch.full((1, 10), math.nan, dtype=torch.double)))  # no query reads the last
    unseen = torch.arange(keys)[None] > torch.arange(length)[:, None] + memory
    actual = attention(reads, distances, u, v, unseen)
    weight_q, weight_r = attention.query.weight, attention.position.weight
    weight_k, weight_v = attention.key_value.weight.chunk(2)
    for lane in range(3):
        for i in range(length):
            summed = []
            for h in range(heads):
                part = slice(h * width, (h + 1) * width)
                query = weight_q[part] @ reads[lane, memory + i]
                seen = range(memory + i + 1)
                scores = [
                    (query + u[h]) @ (weight_k[part] @ reads[lane, j])
                    + (query + v[h]) @ (weight_r[part] @ codes[memory + i - j])
                    for j in seen
                ]
                shares = (torch.stack(scores) / math.sqrt(width)).softmax(0)
                summed.append(
                    sum(share * (weight_v[part] @ reads[lane, j]) for share, j in zip(shares, seen, strict=True))
                )
            torch.testing.assert_close(actual[lane, i], attention.output.weight @ torch.cat(summed))


@pytest.mark.parametrize("columns", [6, 8])
def test_the_shift_moves_no_element(columns: int) -> None:
    products = torch.arange(2.0 * 3 * columns).view(2, 3, columns)  # T = 3, K = 5, M = 2
    moved = shifted(products, 5)
    for i in range(3):
        for j in range(i + 3):
            assert torch.equal(moved[:, i, j], products[:, i, 4 - (i + 2 - j)])
    assert moved.data_ptr() == products[0, 0, 2].data_ptr()
    assert torch.autograd.gradcheck(shifted, (products.double().requires_grad_(), 5))


@pytest.mark.parametrize(
    ("length", "memory", "extra"),
    [(1, 0, {}), (1, 6, {}), (5, 0, {}), (5, 4, {"same_length": "true"}), (4, 3, {"clamp": 3}), (4, 4, {})],
)
def test_distances_padded_for_a_gpu_change_nothing(
    small: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, length: int, memory: int, extra: dict[str, Any]
) -> None:
    """Two segments have the same logits and gradients with the padding that a GPU gets, also with dropout."""
    model = small(length, memory, "dataset.carry_state=true", "model.dropout=0.2", **extra).train()
    tokens = torch.randint(45, (2, 2 * length))
    pad, columns = transformer_xl.aligned, []

    def outcome(multiple: int) -> list[Tensor]:
        def aligned(codes: Tensor, _: int) -> Tensor:
            columns.append(len(pad(codes, multiple)))
            return pad(codes, multiple)

        monkeypatch.setattr(transformer_xl, "aligned", aligned)
        torch.manual_seed(1)
        logits = run(model, tokens, length)
        return [logits, *torch.autograd.grad(logits.square().sum(), list(model.parameters()))]

    for padded, plain in zip(outcome(8), outcome(1), strict=True):
        torch.testing.assert_close(padded, plain, rtol=1e-12, atol=1e-12)
    keys = memory + length
    assert columns == [keys + 1 + 7 - keys % 8] * 2 + [keys + 1] * 2


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("gate", ["none", "sdu_tanh", "highway", "gated_mhdpa"])
def test_a_block_is_its_equations(small: Callable[..., Any], gate: str, norm: str) -> None:
    """A block computes LN(gate(x, f(x))), or gate(x, f(LN x)) with the memory normalised as x is."""
    model = small(4, 3, f"model.norm={norm}", f"gate={gate}").backbone
    block = model.blocks[1]
    x, memory = torch.randn(2, 4, 16, dtype=torch.double), torch.randn(2, 3, 16, dtype=torch.double)
    context = (
        model._distances(7, None),
        model.content_bias,
        model.position_bias,
        torch.ones(4, 7).triu(4).bool(),
    )
    actual = block(x, memory, *context)
    expected, pair = x, torch.cat((memory, x), 1)
    for sublayer, reads, extra in ((block.attention, pair, context), (block.feed_forward, None, ())):
        reads = expected if reads is None else reads
        fx = sublayer.function(sublayer.norm(reads) if norm == "pre" else reads, *extra)
        expected = sublayer.gate(expected, fx, expected)
        expected = sublayer.norm(expected) if norm == "post" else expected
    torch.testing.assert_close(actual, expected)


# Memory


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("memory", [3, 5, 12])
def test_three_segments_are_one_pass(
    small: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, memory: int, norm: str
) -> None:
    """Three segments equal one pass over all of them, with the mask that the memory's length implies.

    Gates are on; the memory is full, and is not.
    """
    tokens = torch.randint(45, (2, 15))
    overrides = ("gate=sdu_sigmoid", f"model.norm={norm}")
    pieces = run(small(5, memory, *overrides), tokens, 5)

    def mask(length: int, *_: Any) -> Tensor:
        query, key = torch.arange(length)[:, None], torch.arange(length)[None]
        return (key > query) | (key < query // 5 * 5 - memory)

    monkeypatch.setattr(transformer_xl, "unseen_keys", mask)
    torch.testing.assert_close(run(small(15, 0, "dataset.carry_state=true", *overrides), tokens, 15), pieces)


def test_evaluation_at_other_lengths(small: Callable[..., Any]) -> None:
    """The table's protocol, 128 with a memory of 896, agrees with 512 with 512 (here a sixteenth of each).

    All context is the same for the first 1024 symbols; with one layer, also for the last 128 of every 512.
    """
    tokens = torch.randint(45, (2, 160))
    short, long = run(small(8, 56), tokens, 8), run(small(32, 32), tokens, 32)
    torch.testing.assert_close(short[:, :64], long[:, :64])
    assert not torch.allclose(short[:, 64:], long[:, 64:])
    short, long = (run(small(*lengths, "model.layers=1"), tokens, lengths[0]) for lengths in ((8, 56), (32, 32)))
    for start in range(0, 160, 32):
        torch.testing.assert_close(short[:, start + 24 : start + 32], long[:, start + 24 : start + 32])


@pytest.mark.parametrize("gate", ["none", "sdu_tanh", "sdu_sigmoid", "highway", "gated_mhdpa"])
def test_causality_by_gradient_with_memory(small: Callable[..., Any], gate: str) -> None:
    """No output depends on a later symbol; every output depends on earlier ones, and on the memory."""
    model = small(6, 4, f"gate={gate}")
    _, state = model(torch.randint(45, (1, 6)), None)
    filled, *memories = state
    memories = [memory.detach().requires_grad_() for memory in memories]
    embedded = model.embedding(torch.randint(45, (1, 6))).detach().requires_grad_()
    model.embedding.forward = lambda _: embedded
    features, _ = model(torch.zeros(1, 6, dtype=torch.long), (filled, *memories))
    for i in range(6):
        gradient, *others = torch.autograd.grad(features[0, i].pow(2).sum(), [embedded, *memories], retain_graph=True)
        assert torch.all(gradient[0, i + 1 :] == 0) and torch.all(gradient[0, : i + 1].abs().sum(-1) > 0)
        assert all(other.abs().sum() > 0 for other in others)


def test_an_empty_memory_is_no_memory(small: Callable[..., Any]) -> None:
    tokens = torch.randint(45, (2, 5))
    torch.testing.assert_close(run(small(5, 7), tokens, 5), run(small(5, 0), tokens, 5))


def test_same_length_and_clamp(small: Callable[..., Any]) -> None:
    """Every query sees M keys, itself included; distances beyond the clamp count as one distance."""
    unseen = transformer_xl.unseen_keys(3, 4, torch.tensor(4), same_length=True)
    assert (~unseen).sum(1).tolist() == [4, 4, 4]
    assert [(~row).nonzero()[0].item() for row in unseen] == [1, 2, 3]
    unseen = transformer_xl.unseen_keys(3, 4, torch.tensor(1), same_length=True)
    assert (~unseen).sum(1).tolist() == [2, 3, 4]
    codes = small(3, 4).backbone._distances(7, clamp=2)
    assert torch.equal(codes[0], codes[4]) and not torch.equal(codes[4], codes[5])


# What the paper's tables need


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("model=transformer_xl gate=none", 20_580_556),
        ("model=transformer_xl gate=sdu_tanh", 26_884_300),
        ("model=transformer_xl gate=highway", 26_884_300),
        ("model=transformer_xl gate=gated_mhdpa", 26_884_300),
        ("model=transformer_xl gate=sdu_tanh layers=attention_only", 23_732_428),
        ("model=transformer_xl gate=sdu_sigmoid layers=l1-3", 23_732_428),
        ("model=transformer_xl_l12 gate=none", 41_055_436),
        ("model=transformer_xl_l12 gate=sdu_tanh", 53_662_924),
        ("model=transformer_xl_l12 gate=sdu_tanh layers=l1-2", 43_156_684),
        ("model=transformer_xl_l12 gate=sdu_tanh layers=l1", 42_106_060),
        ("model=transformer_xl_l12 gate=sdu_tanh layers=l1-6", 47_359_180),
    ],
)
def test_published_parameter_counts(experiment: Compose, text: str, count: int) -> None:
    with torch.device("meta"):
        model = build.model(experiment("dataset=enwik8", *text.split()))
    assert sum(parameter.numel() for parameter in model.parameters()) == count


def test_layers_as_the_released_code_has_them(experiment: Compose) -> None:
    """From the first layer outside the selection on, nothing is gated."""
    overrides = ("model=transformer_xl", "dataset=enwik8", "gate=sdu_tanh", "layers.as_released=true")
    gated = {"l1-3": (1, 2, 3), "l3-6": (), "l4-6": (), "[1,2,4]": (1, 2), "all": (1, 2, 3, 4, 5, 6)}
    for choice, layers in gated.items():
        described = experiment(*overrides, f"layers.attention={choice}", f"layers.feed_forward={choice}")
        assert described.gating.layers == {"attention": layers, "feed_forward": layers}


def test_initial_values_are_those_of_the_released_code(experiment: Compose) -> None:
    model = build.model(experiment("model=transformer_xl", "dataset=enwik8", "gate=sdu_tanh"))
    for name, parameter in named_parameters(model).items():
        if name.endswith("bias") and name not in ("content_bias", "position_bias"):
            assert torch.all(parameter == 0), name
        else:
            mean = 1.0 if "norm.weight" in name else 0.0
            assert abs(parameter.mean() - mean) < 0.005 and 0.017 < parameter.std() < 0.023, name


# The public model


def public_model(ours: Any, described: Experiment) -> Any:
    """Return transformers' TransfoXLLMHeadModel with the weights of our model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers", reason="transformers 4.35 is not installed (make parity)")
        if not hasattr(transformers, "TransfoXLLMHeadModel"):
            pytest.skip("this transformers has no Transformer-XL any more (make parity installs 4.35)")
    model, part = described.model, described.dataset.evaluation
    config = transformers.TransfoXLConfig(
        vocab_size=described.dataset.vocabulary_size,
        cutoffs=[],
        d_model=model.width,
        d_embed=model.width,
        n_head=model.heads,
        d_head=model.head_width,  # type: ignore[union-attr]
        d_inner=model.feed_forward,
        n_layer=model.layers,
        pre_lnorm=model.norm == "pre",
        mem_len=part.memory,
        clamp_len=part.clamp or -1,
        same_length=part.same_length,
        div_val=1,
        adaptive=False,
        untie_r=False,
    )
    public = transformers.TransfoXLLMHeadModel(config)
    state = {
        "transformer.word_emb.emb_layers.0.weight": ours.embedding.weight,
        "crit.out_layers.0.bias": ours.output_bias,
        "transformer.r_w_bias": ours.backbone.content_bias,
        "transformer.r_r_bias": ours.backbone.position_bias,
    }
    for number, block in enumerate(ours.backbone.blocks):
        attention, feed_forward = block.attention.function, block.feed_forward.function
        state |= {
            f"transformer.layers.{number}.{name}": value
            for name, value in {
                "dec_attn.qkv_net.weight": torch.cat((attention.query.weight, attention.key_value.weight)),
                "dec_attn.o_net.weight": attention.output.weight,
                "dec_attn.r_net.weight": attention.position.weight,
                "dec_attn.layer_norm.weight": block.attention.norm.weight,
                "dec_attn.layer_norm.bias": block.attention.norm.bias,
                "pos_ff.CoreNet.0.weight": feed_forward.inner.weight,
                "pos_ff.CoreNet.0.bias": feed_forward.inner.bias,
                "pos_ff.CoreNet.3.weight": feed_forward.outer.weight,
                "pos_ff.CoreNet.3.bias": feed_forward.outer.bias,
                "pos_ff.layer_norm.weight": block.feed_forward.norm.weight,
                "pos_ff.layer_norm.bias": block.feed_forward.norm.bias,
            }.items()
        }
    missing, unexpected = public.load_state_dict(state, strict=False)
    assert not unexpected
    assert all("pos_emb" in name or "out_layers.0.weight" in name or ".r_" in name for name in missing), missing
    return public.eval()


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("extra", [{}, {"clamp": 5}, {"same_length": "true"}])
def test_parity_with_the_public_model(experiment: Compose, norm: str, extra: dict[str, Any]) -> None:
    """Over three segments, logits and new memories agree to 1e-4.

    A public model starts from a memory full of zeros.
    """
    described = experiment(*SMALL, f"model.norm={norm}", f"dataset.evaluation={cut(6, 9, **extra)}")
    ours = build.model(described).eval()
    public = public_model(ours, described)
    state, memories = (torch.tensor([9, 9]), *torch.zeros(3, 2, 9, 16)), None
    for _ in range(3):
        tokens = torch.randint(45, (2, 6))
        with torch.no_grad():
            features, state = ours(tokens, state)
            result = public(tokens, mems=memories)
        memories = result.mems
        expected = ours.logits(features).log_softmax(-1)
        torch.testing.assert_close(expected, result.prediction_scores.view_as(expected), rtol=0, atol=1e-4)
        for mine, theirs in zip(state[1:], memories, strict=True):
            torch.testing.assert_close(mine, theirs.transpose(0, 1), rtol=0, atol=1e-4)
