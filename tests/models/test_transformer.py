"""The Transformer language model: causality, identities, published counts, and parity with torch's layers."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from highway.blocks.layers import sinusoids
from highway.config.experiment import Experiment
from highway.describe import named_parameters
from highway.run import build
from tests.support.overrides import RESIDUAL_GATES

Compose = Callable[..., Experiment]
FINAL = "model.final_norm=true"


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("gate", RESIDUAL_GATES)
def test_causality_by_gradient(tiny: Compose, gate: str, norm: str) -> None:
    """The derivative d y_i / d x_j is 0 for every j > i, and not for j <= i."""
    model = build.model(tiny(f"gate={gate}", f"model.norm={norm}")).double().eval()
    tokens = torch.randint(27, (1, 9))
    embedded = model.embedding(tokens).detach().requires_grad_()
    model.embedding.forward = lambda _: embedded
    features, _ = model(tokens)
    for i in range(9):
        (gradient,) = torch.autograd.grad(
            features[0, i].sum() + features[0, i].pow(2).sum(), embedded, retain_graph=True
        )
        assert torch.all(gradient[0, i + 1 :] == 0)
        assert torch.all(gradient[0, : i + 1].abs().sum(-1) > 0)


def test_no_layer_gated_is_the_ungated_model(tiny: Compose) -> None:
    """Both models have the same parameters and, for the same seed, the same output."""
    plain = build.model(tiny("gate=none"))
    unused = build.model(tiny("gate=sdu_tanh", "layers=none"))
    assert {n: p.shape for n, p in named_parameters(plain).items()} == {
        n: p.shape for n, p in named_parameters(unused).items()
    }
    tokens = torch.randint(27, (2, 8))
    assert torch.equal(plain.eval()(tokens)[0], unused.eval()(tokens)[0])


def test_a_gate_shifts_no_other_initial_value(tiny: Compose) -> None:
    plain = named_parameters(build.model(tiny("gate=none")))
    gated = named_parameters(build.model(tiny("gate=highway", "layers=l1-2")))
    assert set(plain) < set(gated)
    assert all(torch.equal(value, gated[name]) for name, value in plain.items())
    other_seed = named_parameters(build.model(tiny("gate=none", "seed=2")))
    assert not torch.equal(plain["embedding.weight"], other_seed["embedding.weight"])


def test_every_parameter_is_drawn_for_itself(tiny: Compose) -> None:
    """No two parameters have the same values, even with one shape, unless they start at a constant."""
    drawn = [p.flatten() for p in build.model(tiny("gate=sdu_tanh")).parameters() if p.unique().numel() > 1]
    for number, first in enumerate(drawn):
        for second in drawn[number + 1 :]:
            size = min(len(first), len(second))
            ratios = first[:size] / second[:size]
            assert ratios.max() - ratios.min() > 1e-3, "one is the other, scaled"


def test_initial_values(experiment: Compose) -> None:
    model = build.model(experiment("gate=sdu_sigmoid", "dataset.source=sample"))
    named = named_parameters(model)
    assert 0.099 < named["embedding.weight"].abs().max() <= 0.1
    weight = named["blocks.0.attention.gate.transform_gate.weight"]
    assert 0.999 / 512**0.5 < weight.abs().max() <= 1 / 512**0.5
    outer = named["blocks.2.feed_forward.function.outer.weight"]
    assert 0.999 / 2048**0.5 < outer.abs().max() <= 1 / 2048**0.5
    assert named["blocks.0.attention.function.output.bias"].abs().max() > 0.03  # torch's default
    for name in (
        "output_bias",
        "blocks.1.feed_forward.gate.transform_gate.bias",
        "blocks.1.attention.gate.transform.bias",
    ):
        assert named[name].abs().max() == 0
    assert torch.all(named["blocks.0.attention.norm.weight"] == 1)


def test_embeddings_that_start_normally(tiny: Compose) -> None:
    weight = build.model(tiny("model.width=512", "model.init_embedding_as=normal")).embedding.weight.detach()
    assert weight.std().item() == pytest.approx(0.1, rel=0.02) and weight.abs().max() > 0.3


def test_maps_that_start_as_embeddings(tiny: Compose) -> None:
    """All weights from U(-0.01, 0.01), biases at 0 and gains at 1: Highway Transformer, appendix A.2."""
    options = ("model.width=64", "gate=sdu_tanh", "model.init_maps=embedding", "model.init_embedding=0.01")
    for name, value in named_parameters(build.model(tiny(*options))).items():
        if name.endswith("bias"):
            assert value.abs().max() == 0, name
        elif ".norm." in name:
            assert torch.all(value == 1), name
        else:
            assert 0.0099 < value.abs().max() <= 0.01, name


@pytest.mark.parametrize("gate", ["sdu_tanh", "sdu_conv_tanh"])
def test_maps_that_start_as_glorots(tiny: Compose, gate: str) -> None:
    """Matrices, that of the embedding too, start within the bounds of torch's xavier_uniform_, vectors as they do."""
    usual = named_parameters(build.model(tiny("model.width=64", f"gate={gate}")))
    named = named_parameters(build.model(tiny("model.width=64", f"gate={gate}", "model.init_maps=glorot")))
    for name, value in named.items():
        if value.ndim == 1:
            assert torch.equal(value, usual[name]), name
            continue
        for matrix in value.chunk(3) if "query_key_value" in name else (value,):
            torchs = nn.init.xavier_uniform_(torch.empty_like(matrix)).abs().max()
            assert matrix.abs().max().item() == pytest.approx(torchs.item(), rel=0.02), name


@torch.no_grad()
@pytest.mark.parametrize("model", ["transformer", "r_transformer"])
def test_a_norm_after_the_last_block(tiny: Compose, model: str) -> None:
    """The features are those of the model without it, normalised; after post-norm there is none to add."""
    options = (f"model={model}", "dataset.source=sample")
    plain, normed = (build.model(tiny(*options, f"model.final_norm={on}")).eval() for on in ("false", "true"))
    tokens = torch.randint(27, (2, 8))
    features = plain(tokens)[0]
    expected = (features - features.mean(-1, keepdim=True)) / (features.std(-1, keepdim=True) + 1e-6)
    torch.testing.assert_close(normed(tokens)[0], expected)
    names = [set(named_parameters(build.model(tiny(*options, "model.norm=post", *more)))) for more in ((), (FINAL,))]
    assert names[0] == names[1]


@pytest.mark.parametrize("model", ["transformer", "r_transformer"])
def test_attention_maps_that_start_as_copies(tiny: Compose, model: str) -> None:
    """All four are one map, drawn as any other; blocks differ, and so do seeds; no other value changes."""

    def named(*overrides: str) -> dict[str, torch.Tensor]:
        return named_parameters(build.model(tiny(f"model={model}", "model.layers=2", *overrides)))

    usual, copies = named(), named("model.init_attention=copies")
    maps = []
    for block in "01":
        start = f"blocks.{block}.attention.function."
        for kind in ("weight", "bias"):
            query, key, value = copies[f"{start}query_key_value.{kind}"].chunk(3)
            assert all(torch.equal(query, other) for other in (key, value, copies[f"{start}output.{kind}"]))
            assert 0.9 / 16**0.5 < query.abs().max() <= 1 / 16**0.5 or kind == "bias"
        maps.append(query)
    assert not torch.equal(*maps)
    assert not torch.equal(query, named("model.init_attention=copies", "seed=2")[f"{start}query_key_value.bias"][:16])
    unlike = {name for name in usual if not torch.equal(usual[name], copies[name])}
    assert unlike and all(".attention.function." in name for name in unlike)
    small = named("model.init_maps=embedding", "model.init_attention=copies")
    assert not torch.equal(*small["blocks.0.attention.function.query_key_value.weight"].chunk(3)[:2]), "not read then"


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (("gate=none",), 9_482_289),
        (("gate=sdu_tanh",), 12_634_161),
        (("gate=highway",), 12_634_161),
        (("model=transformer_word", "dataset=ptb_word", "gate=none"), 1_884_816),
        (("model=transformer_word", "dataset=ptb_word", "gate=sdu_sigmoid"), 2_082_960),
        (("model=transformer_word", "dataset=ptb_word", "gate=sdu_bilinear"), 2_082_960),
        (("model=transformer_word", "dataset=ptb_word", "gate=sdu_linear"), 1_884_816 + 198_144 // 2),
        (("model=transformer_word", "dataset=ptb_word", "model.tied=false"), 1_884_816 + 10_000 * 128),
        (("model=transformer_word", "dataset=ptb_word", "model.final_norm=true"), 1_884_816 + 2 * 128),
    ],
)
def test_parameter_counts_of_the_papers(experiment: Compose, overrides: tuple[str, ...], expected: int) -> None:
    with torch.device("meta"):
        model = build.model(experiment(*overrides))
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


@torch.no_grad()
@pytest.mark.parametrize(
    "overrides",
    [
        ("model=transformer",),
        ("model=r_transformer",),
        ("model=transformer_xl", "dataset=enwik8"),
        ("model=rhn",),
        ("model=lstm", "model.input=24"),
        ("model=tcn", "model.input=24", "model.output=40"),
    ],
    ids=lambda overrides: overrides[0],
)
def test_an_output_that_is_not_tied(experiment: Compose, overrides: tuple[str, ...]) -> None:
    """The output map is drawn for itself as the embedding is, and may have another width; logits read it alone."""
    small = ("dataset.source=sample", "model.width=32", *overrides)
    described = experiment(*small, "model.tied=false")
    model = build.model(described).eval()
    output, embedding = named_parameters(model)["output"], model.embedding.weight
    assert output.shape[1] == described.model.width_out and embedding.shape[1] == described.model.width_in
    assert not torch.equal(*(weight.flatten()[:100] for weight in (output, embedding)))
    assert output.abs().max().item() == pytest.approx(embedding.abs().max().item(), rel=0.2)
    context = (described.dataset.evaluation.context,) if "transformer_xl" in overrides[0] else ()
    features, _ = model(torch.randint(27, (2, 8)), None, *context)
    torch.testing.assert_close(model.logits(features), features @ output.T + model.output_bias)
    if described.model.width_in == described.model.width_out:
        tied = named_parameters(build.model(experiment(*small)))
        assert all(torch.equal(value, named_parameters(model)[name]) for name, value in tied.items())


@pytest.mark.parametrize(
    ("layers", "gated"),
    [
        ("l1", ["0.attention", "0.feed_forward"]),
        ("attention_only", ["0.attention", "1.attention", "2.attention"]),
        ("none", []),
    ],
)
def test_only_the_chosen_sublayers_own_gates(tiny: Compose, layers: str, gated: list[str]) -> None:
    model = build.model(tiny("gate=sdu_tanh", f"layers={layers}"))
    owners = {
        name.split("blocks.")[1].split(".gate.")[0] for name, _ in named_parameters(model).items() if ".gate." in name
    }
    assert sorted(owners) == gated


@pytest.mark.parametrize("norm_first", [True, False])
@torch.no_grad()
def test_equals_torchs_encoder_layers(tiny: Compose, norm_first: bool) -> None:
    """The model equals torch.nn.TransformerEncoderLayer with copied weights, a causal mask and no final norm."""
    norm = "pre" if norm_first else "post"
    model = build.model(tiny(f"model.norm={norm}", "model.norm_deviation=biased")).eval()
    torch.manual_seed(0)
    for parameter in model.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))
    x = model.embedding(tokens := torch.randint(27, (2, 10))) + model.backbone._positions(10)
    for block in model.backbone.blocks:
        layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True, norm_first=norm_first).eval()
        attention, feed_forward = block.attention, block.feed_forward
        layer.self_attn.in_proj_weight.copy_(attention.function.query_key_value.weight)
        layer.self_attn.in_proj_bias.copy_(attention.function.query_key_value.bias)
        layer.self_attn.out_proj.load_state_dict(attention.function.output.state_dict())
        layer.linear1.load_state_dict(feed_forward.function.inner.state_dict())
        layer.linear2.load_state_dict(feed_forward.function.outer.state_dict())
        layer.norm1.load_state_dict(attention.norm.state_dict())
        layer.norm2.load_state_dict(feed_forward.norm.state_dict())
        x = layer(x, src_mask=nn.Transformer.generate_square_subsequent_mask(10), is_causal=True)
    torch.testing.assert_close(model(tokens)[0], x, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_one_mask_drops_the_sum_of_embedding_and_positions(tiny: Compose) -> None:
    """A component that blocks read is 0, or 2 (4/3 E + PE), or 2 PE where dropout_embedding has dropped E."""
    model = build.model(tiny("model.dropout_embedding=0.25", "model.dropout_positions=0.5"))
    tokens, inputs = torch.randint(27, (64, 20)), []
    model.backbone.blocks[0].register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    model.train()(tokens)
    model.eval()(tokens)
    embedded, positions = model.embedding(tokens), sinusoids(20, 16).expand(64, 20, 16)
    kept = torch.isclose(inputs[0], 2 * (4 / 3 * embedded + positions), atol=1e-6)
    without_embedding = torch.isclose(inputs[0], 2 * positions, atol=1e-6)
    dropped = inputs[0] == 0
    assert torch.all(kept | without_embedding | dropped)
    for share, expected in ((dropped, 1 / 2), (kept, 3 / 8)):
        assert share.float().mean().item() == pytest.approx(expected, abs=0.02)
    torch.testing.assert_close(inputs[1], embedded + positions)


@torch.no_grad()
def test_gate_that_reads_the_normalised_stream(tiny: Compose) -> None:
    model = build.model(tiny("gate=highway", "gate.reads=normalised")).eval()
    sublayer = model.backbone.blocks[0].feed_forward
    x = torch.randn(2, 3, 16)
    normalised = sublayer.norm(x)
    opening = torch.sigmoid(sublayer.gate.transform_gate(normalised))
    expected = (1 - opening) * x + opening * sublayer.gate.transform(normalised) + sublayer.function(normalised)
    torch.testing.assert_close(sublayer(x), expected)
