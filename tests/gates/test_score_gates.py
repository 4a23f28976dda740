"""Score gates against their equations, and their encoder-decoder: parity, causality, decoding."""

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.blocks.scored_attention import CrossAttention, Past, SelfAttention
from highway.cards.datasets import END, PADDING, START
from highway.cards.gates import ScoreGateOptions
from highway.config.experiment import Experiment
from highway.describe import parameter_counts
from highway.errors import Refused
from highway.gates.scores import GatedScores, score_gate
from highway.models.ends import Pieces
from highway.models.search import Cached, Recomputed, beam, decoder, greedy
from highway.run import build

Compose = Callable[..., Experiment]
GATES = ["none", "realformer", "m2", "m3", "g1", "g2", "g3"]
ARMS = {
    "accumulated": ("gate=realformer", "gate.score.accumulated=true"),
    "sigmoid": ("gate=g1", "gate.score.activation=sigmoid"),
    "per_head": ("gate=g2", "gate.score.per_head=true"),
    "each": ("gate=g3", "gate.score.each=true"),
    "encoder": ("gate=g1", "gate.score.attention=[encoder]"),
    "with_sdu": ("gate=g1", "gate.residual=sdu", "layers=l1-3"),
    "pre": ("gate=g2", "model.norm=pre"),
}
EVERY = [(f"gate={name}",) for name in GATES] + list(ARMS.values())
IDS = [*GATES, *ARMS]


@pytest.fixture
def small(experiment: Compose) -> Callable[..., Any]:
    """Return a function that builds a model of four layers, with random parameters in its gates.

    The vocabularies have 11 and 9 symbols.
    """

    def built(*overrides: str) -> Pieces:
        size = ("model.width=24", "model.heads=3", "model.feed_forward=20", "layers=none")
        described = experiment(
            "model=encoder_decoder", "dataset=iwslt_pt_en", "dataset.pieces.files=[11,9]", *size, *overrides
        )
        model = build.model(described).eval()
        generator = torch.Generator().manual_seed(5)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                drawn = torch.randn(parameter.shape, generator=generator) * 0.3
                parameter.copy_(drawn + 1 if name.endswith("norm.weight") else drawn)
        return model

    return built


def sentences(*shape: int, symbols: int = 9, seed: int = 1) -> Tensor:
    return torch.randint(4, symbols, shape, generator=torch.Generator().manual_seed(seed))


# The equations


def naive(gate: ScoreGateOptions, score: Tensor, earlier: list[Tensor], allowed: Tensor, module: nn.Module) -> Tensor:
    """Compute S + P, or S + P * psi(P W + B), entry by entry; P is zero where a key is masked."""
    chosen = earlier if gate.accumulated else earlier[-gate.predecessors :]
    if gate.name == "realformer" or not chosen:
        return score + sum(chosen)
    assert isinstance(module, GatedScores)
    psi = math.tanh if gate.activation == "tanh" else lambda value: 1 / (1 + math.exp(-value))
    groups = chosen if gate.each else [sum(chosen[1:], chosen[0])]
    out = score.clone()
    batch, heads, queries, keys = score.shape
    for number, part in enumerate(groups):
        for b, h, i, j in itertools.product(range(batch), range(heads), range(queries), range(keys)):
            head = h if gate.per_head else 0
            row = [float(part[b, h, i, k]) if allowed[b, i, k] else 0.0 for k in range(keys)]
            mixed = sum(row[k] * module.weight[number, head, k, j].item() for k in range(keys))
            out[b, h, i, j] += row[j] * psi(mixed + module.bias[number, head, i, j].item())
    return out


@pytest.mark.parametrize("predecessors", [1, 2, 3])
@pytest.mark.parametrize(
    "extra",
    [
        {"name": "realformer"},
        {"name": "realformer", "accumulated": True},
        {"name": "gated"},
        {"name": "gated", "activation": "sigmoid"},
        {"name": "gated", "per_head": True},
        {"name": "gated", "each": True},
        {"name": "gated", "accumulated": True},
        {"name": "gated", "accumulated": True, "each": True, "per_head": True},
    ],
    ids=lambda extra: "-".join(map(str, extra.values())),
)
def test_gate_is_its_equation(predecessors: int, extra: dict[str, Any]) -> None:
    gate = ScoreGateOptions(predecessors=predecessors, length=7, **extra)
    module = score_gate(gate, layer=5, heads=2)
    torch.manual_seed(3)
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    score, *earlier = torch.randn(5, 2, 2, 4, 5)
    allowed = torch.rand(2, 4, 5) > 0.3
    mask = torch.zeros(2, 1, 4, 5).masked_fill(~allowed[:, None], -math.inf)
    expected = naive(gate, score, earlier, allowed, module)
    visible = allowed[:, None].expand_as(score)
    torch.testing.assert_close(module(score, earlier, mask, 0)[visible], expected[visible])


def test_a_later_query_has_its_own_row_of_b() -> None:
    module = score_gate(ScoreGateOptions(name="gated", length=6), layer=2, heads=1)
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    score, earlier = torch.randn(2, 1, 1, 5, 5)
    mask = torch.zeros(1, 1, 5, 5)
    whole = module(score, [earlier], mask, 0)
    last = module(score[:, :, 4:], [earlier[:, :, 4:]], mask[:, :, 4:], 4)
    torch.testing.assert_close(last, whole[:, :, 4:])


def test_a_text_beyond_the_gate_is_refused(small: Callable[..., Any]) -> None:
    with pytest.raises(Refused, match="the score gate has weights for 5 positions, and this text has 6"):
        small("gate=g1", "gate.score.length=5", "dataset.longest=5")(sentences(1, 6), sentences(1, 4))


def test_a_gate_has_as_many_places_as_it_says() -> None:
    """The limit counts keys and queries: a short source does not make room for a long target."""
    module = score_gate(ScoreGateOptions(name="gated", length=6), layer=2, heads=1)
    score, earlier = torch.randn(2, 1, 1, 1, 3)
    mask = torch.zeros(1, 1, 1, 3)
    module(score, [earlier], mask, 5)
    with pytest.raises(Refused, match="has weights for 6 positions, and this text has 7"):
        module(score, [earlier], mask, 6)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_each_kind_of_attention_has_its_gate(small: Callable[..., Any], kind: str) -> None:
    """A gate on one kind of attention alone changes the model's output."""
    source, target = sentences(2, 6), sentences(2, 5)
    plain, gated = small(), small("gate=realformer", f"gate.score.attention=[{kind}]")
    assert (plain(source, target) - gated(source, target)).abs().max() > 1e-4


def test_attention_to_the_source_starts_at_the_first_query() -> None:
    gate = score_gate(ScoreGateOptions(name="gated", length=6), layer=2, heads=2)
    for parameter in gate.parameters():
        nn.init.normal_(parameter)
    attention = CrossAttention(8, 2, 4, 0.0, gate).eval()
    x, keys_values, mask = torch.randn(1, 3, 8), attention.keys_values(torch.randn(1, 4, 8)), torch.zeros(1, 1, 3, 4)
    earlier = torch.randn(1, 2, 3, 4)
    usual, explicit, later = (attention(x, keys_values, mask, [earlier], *extra) for extra in ((), (0,), (1,)))
    assert torch.equal(usual, explicit) and not torch.allclose(usual, later)


def test_the_past_is_kept_in_order_however_long() -> None:
    """The past keeps its order beyond its first allocation, piece by piece, and when rows are selected on the way."""
    past, pieces = Past(), torch.randn(2, 40, 3, 2, 1, 5)
    for position in range(40):
        keys, values = past.extended(*pieces[:, position])
        if position == 20:
            past.select(torch.tensor([2, 0, 0]))
            pieces = pieces.clone()
            pieces[:, :21] = pieces[:, :21, [2, 0, 0]]
    for held, part in ((keys, pieces[0]), (values, pieces[1])):
        assert torch.equal(held, torch.cat(list(part), dim=2))


def test_the_first_layers_take_what_there_is(small: Callable[..., Any]) -> None:
    """Layer 1 has no predecessor and no parameters; G3's second layer reads one, its fourth three."""
    model = small("gate=g3")
    gates = [layer.itself.function.gate for layer in model.backbone.encoder]
    assert [getattr(gate, "predecessors", 0) for gate in gates] == [0, 1, 2, 3]


# The model


@pytest.mark.parametrize("overrides", EVERY, ids=IDS)
def test_no_position_of_the_decoder_sees_a_later_one(small: Callable[..., Any], overrides: tuple[str, ...]) -> None:
    assert leaks(small(*overrides)) == 0


@pytest.mark.parametrize("name", ["g1", "g2", "g3"])
def test_the_gate_as_printed_sees_the_future(small: Callable[..., Any], name: str) -> None:
    assert leaks(small(f"gate={name}", "gate.score.as_printed=true")) > 1e-6


def leaks(model: Pieces) -> float:
    """Return the largest derivative of an output position by the embedding of a later one."""
    source, target = sentences(2, 6), sentences(2, 5)
    vectors: list[Tensor] = []

    def watch(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        vectors.append(output.detach().requires_grad_())
        return vectors[0]

    handle = model.target_embedding.register_forward_hook(watch)
    features = model(source, target)
    handle.remove()
    actual = 0.0
    for index in range(5):
        (gradient,) = torch.autograd.grad(features[:, index].sum(), vectors[0], retain_graph=True)
        assert gradient[:, : index + 1].abs().max() > 0
        if index < 4:
            actual = max(actual, float(gradient[:, index + 1 :].abs().max()))
    return actual


@pytest.mark.parametrize("overrides", EVERY, ids=IDS)
def test_padding_changes_nothing(small: Callable[..., Any], overrides: tuple[str, ...]) -> None:
    model = small(*overrides)
    source, target = sentences(2, 6), sentences(2, 5)
    padded, longer = (F.pad(part, (0, 3), value=PADDING) for part in (source, target))
    torch.testing.assert_close(model(padded, longer)[:, :5], model(source, target), rtol=1e-4, atol=1e-4)


def test_realformer_without_earlier_scores_is_the_transformer(small: Callable[..., Any]) -> None:
    plain, real = small("model.layers=1"), small("model.layers=1", "gate=realformer")
    source, target = sentences(2, 6), sentences(2, 5)
    torch.testing.assert_close(real(source, target), plain(source, target))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_transformer_is_torchs(small: Callable[..., Any], norm: str) -> None:
    """With copied weights the model equals nn.TransformerEncoderLayer and DecoderLayer stacks without final norms."""
    model = small(f"model.norm={norm}", "model.norm_epsilon=1e-5")
    shape: dict[str, Any] = {"dropout": 0.0, "batch_first": True, "norm_first": norm == "pre"}
    encoder = [nn.TransformerEncoderLayer(24, 3, 20, **shape).eval() for _ in model.backbone.encoder]
    decoders = [nn.TransformerDecoderLayer(24, 3, 20, **shape).eval() for _ in model.backbone.decoder]
    for ours, theirs in zip(model.backbone.encoder, encoder, strict=True):
        copy_sublayers(ours, theirs, [("itself", theirs.self_attn, theirs.norm1)], theirs.norm2)
    for ours, layer in zip(model.backbone.decoder, decoders, strict=True):
        attentions = [("itself", layer.self_attn, layer.norm1), ("cross", layer.multihead_attn, layer.norm2)]
        copy_sublayers(ours, layer, attentions, layer.norm3)
    source, target = F.pad(sentences(2, 6), (0, 2), value=PADDING), sentences(2, 5)
    x, padding = model.backbone._placed(model.source_embedding(source) * model.scale), source == PADDING
    for layer in encoder:
        x = layer(x, src_key_padding_mask=padding)
    y, future = model.backbone._placed(model.target_embedding(target) * model.scale), torch.ones(5, 5).triu(1).bool()
    for layer in decoders:
        y = layer(y, x, tgt_mask=future, memory_key_padding_mask=padding)
    torch.testing.assert_close(model(source, target), y, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def copy_sublayers(ours: Any, theirs: Any, attentions: list[Any], last_norm: nn.Module) -> None:
    for name, attention, norm in attentions:
        sublayer = getattr(ours, name)
        function = sublayer.function
        maps = [function.query_key_value] if name == "itself" else [function.query, function.key_value]
        attention.in_proj_weight.copy_(torch.cat([linear.weight for linear in maps]))
        attention.in_proj_bias.copy_(torch.cat([linear.bias for linear in maps]))
        attention.out_proj.load_state_dict(function.output.state_dict())
        norm.load_state_dict(sublayer.norm.state_dict())
    theirs.linear1.load_state_dict(ours.feed_forward.function.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.function.outer.state_dict())
    last_norm.load_state_dict(ours.feed_forward.norm.state_dict())


@pytest.mark.parametrize(
    ("layers", "overrides", "residual"),
    [
        (3, (), False),
        (2, ("gate=realformer",), True),
        (4, ("gate=realformer", "gate.score.accumulated=true"), True),
    ],
    ids=["plain", "realformer", "accumulated"],
)
def test_encoder_is_x_transformers(
    small: Callable[..., Any], layers: int, overrides: tuple[str, ...], residual: bool
) -> None:
    """The encoder equals that of x_transformers, with heads of any width and with residual attention.

    Its running sum is R for two layers; for more it is the extra row with accumulated scores.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from x_transformers import Encoder

        shape: Any = {"attn_dim_head": 5, "residual_attn": residual, "pre_norm": False, "ff_mult": 20 / 24}
        theirs = Encoder(dim=24, depth=layers, heads=3, ff_custom_activation=nn.ReLU(), **shape).eval()
    model = small(f"model.layers={layers}", "model.key_width=5", "model.norm_epsilon=1e-5", *overrides)
    with torch.no_grad():
        for number, layer in enumerate(model.backbone.encoder):
            attention, feed_forward = theirs.layers[2 * number], theirs.layers[2 * number + 1]
            function = layer.itself.function
            for bias in (function.query_key_value.bias, function.output.bias):
                bias.zero_()
            for part, weight in zip(("q", "k", "v"), function.query_key_value.weight.chunk(3), strict=True):
                getattr(attention[1], f"to_{part}").weight.copy_(weight)
            attention[1].to_out.weight.copy_(function.output.weight)
            feed_forward[1].ff[0][0].load_state_dict(layer.feed_forward.function.inner.state_dict())
            feed_forward[1].ff[2].load_state_dict(layer.feed_forward.function.outer.state_dict())
            for norm, sublayer in ((attention[0][2], layer.itself), (feed_forward[0][2], layer.feed_forward)):
                sublayer.norm.bias.zero_()
                norm.gamma.copy_(sublayer.norm.weight - float(norm.unit_offset))
        source = sentences(2, 6)
        expected = theirs(model.backbone._placed(model.source_embedding(source) * model.scale))
        torch.testing.assert_close(model.encode(source).features, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("overrides", "total"),
    [
        ((), 17_109_970),
        (("model.layers=6",), 22_872_970),
        (("model.heads=8",), 17_159_266),
        (("model=encoder_decoder_512", "dataset.pieces.files=[8500,8500]"), 42_440_940),
    ],
)
def test_parameters_are_the_papers(experiment: Compose, overrides: tuple[str, ...], total: int) -> None:
    assert counts(experiment, *overrides)["total"] == total


@pytest.mark.parametrize(
    ("overrides", "added"),
    [
        (("gate=m3",), 0),
        (("gate=g1",), 9 * 2 * 64 * 64),  # three layers with a predecessor, three attentions each
        (("gate=g3",), 9 * 2 * 64 * 64),
        (("gate=g1", "gate.score.per_head=true"), 6 * 9 * 2 * 64 * 64),
        (("gate=g3", "gate.score.each=true"), 3 * (1 + 2 + 3) * 2 * 64 * 64),
        (("gate=g1", "gate.score.attention=[encoder]"), 3 * 2 * 64 * 64),
    ],
)
def test_parameters_that_a_gate_adds(experiment: Compose, overrides: tuple[str, ...], added: int) -> None:
    actual = counts(experiment, *overrides)
    assert (actual["total"] - 17_109_970, actual["gate"]) == (added, added)


def counts(experiment: Compose, *overrides: str) -> dict[str, int]:
    with torch.device("meta"):
        return parameter_counts(
            build.model(experiment("model=encoder_decoder", "dataset=iwslt_pt_en", "layers=none", *overrides))
        )


# Decoding


@torch.no_grad()
def end_now_and_then(model: Pieces, source: Tensor) -> None:
    """Make END the likeliest symbol at a quarter of all positions of random texts, and give no other symbol a lead."""
    logits = model.logits(model(source, sentences(len(source), 12))).flatten(0, 1)
    model.output.bias -= logits.mean(0)
    logits = logits - logits.mean(0)
    lead = logits[:, [symbol for symbol in range(9) if symbol != END]].amax(-1) - logits[:, END]
    model.output.bias[END] += lead.quantile(0.25)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("overrides", EVERY, ids=IDS)
def test_cached_decoding_is_recomputing(small: Callable[..., Any], overrides: tuple[str, ...], width: int) -> None:
    """Cached decoding equals recomputing, also if sentences of a batch end at different positions."""
    model, source = small(*overrides), F.pad(sentences(24, 6, symbols=11), (0, 2), value=PADDING)
    end_now_and_then(model, source)

    def found(start: Any) -> list[list[int]]:
        return greedy(model, source, 12, start) if width == 1 else beam(model, source, 12, width, 0.6, start)

    cached = found(Cached)
    assert cached == found(Recomputed)
    assert decoder(model, source).__class__ is Cached
    assert len({len(text) for text in cached}) > 1, "not all of one length, or the test shows little"


def test_what_sees_the_future_is_recomputed(small: Callable[..., Any]) -> None:
    model = small("gate=g1", "gate.score.as_printed=true")
    assert isinstance(decoder(model, sentences(2, 5)), Recomputed)


def test_together_is_alone(small: Callable[..., Any]) -> None:
    model, source = small("gate=g2"), sentences(5, 6, symbols=11)
    assert greedy(model, source, 10) == [greedy(model, row[None], 10)[0] for row in source]
    assert beam(model, source, 10, 3) == [beam(model, row[None], 10, 3)[0] for row in source]


def test_greedy_takes_the_likeliest(small: Callable[..., Any]) -> None:
    model, source = small(), sentences(1, 6, symbols=11)
    prefix: list[int] = [START]
    while len(prefix) <= 8 and prefix[-1] != END:
        logits = model.logits(model(source, torch.tensor([prefix])))[0, -1]
        prefix.append(int(logits.argmax()))
    assert greedy(model, source, 8)[0] == [symbol for symbol in prefix[1:] if symbol != END]


def test_a_beam_that_holds_everything_finds_the_best(small: Callable[..., Any]) -> None:
    """The beam finds the best of all texts of at most three symbols, which are scored one by one."""
    model, source = small(), sentences(2, 6, symbols=11)
    for row in source:
        best = max(every_text(model, row), key=lambda actual: actual[0])[1]
        assert beam(model, row[None], 3, 9 * 9, penalty=0.6)[0] == best


@torch.no_grad()
def every_text(model: Pieces, source: Tensor) -> list[tuple[float, list[int]]]:
    texts, symbols = [], [symbol for symbol in range(9) if symbol != END]
    for length in range(4):
        for text in itertools.product(symbols, repeat=length):
            whole = [*text, END] if length < 3 else list(text)  # cut at three
            inputs = torch.tensor([[START, *whole[:-1]]])
            chances = model.logits(model(source[None], inputs))[0].log_softmax(-1)
            value = sum(float(chances[position, symbol]) for position, symbol in enumerate(whole))
            texts.append((value / ((5 + len(whole)) / 6) ** 0.6, list(text)))
    return texts


def test_beam_of_one_is_greedy(small: Callable[..., Any]) -> None:
    model, source = small("gate=g1"), sentences(4, 6, symbols=11)
    assert beam(model, source, 10, 1, penalty=0.0) == greedy(model, source, 10)


def test_scored_attention_drops_in_training_and_draws_each_map_alone() -> None:
    torch.manual_seed(0)
    x, mask = torch.randn(2, 5, 8), torch.full((5, 5), -math.inf).triu(1)
    gate = score_gate(ScoreGateOptions(), layer=1, heads=2)
    attention = SelfAttention(8, 2, 4, 0.5, gate)
    plain = attention.eval()(x, mask, [])
    assert not torch.allclose(attention.train()(x, mask, []), plain)
    assert attention.query_key_value.starts["weight"].parts == 3, "each map is drawn as if it stood alone"
