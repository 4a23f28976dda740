"""RNN, GRU, LSTM and TCN against torch.nn and pytorch-tcn with copied weights, and their states."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from swapped import PublicTCN
from torch import Tensor, nn

from highway.cards.gates import GATES
from highway.config.experiment import Experiment
from highway.errors import Refused
from highway.run import build
from highway.tables.reading import load_table
from highway.tasks.language import mapped
from tests.guests import leaky

Compose = Callable[..., Experiment]
CELLS = ("rnn", "gru", "lstm")
CARRIED = (
    "dataset=ptb_word_carried",
    "dataset.source=sample",
    "model.width=12",
    "model.layers=2",
    "dataset.train={lanes:4,window:6,stride:6,scored:6}",
    "dataset.evaluation={lanes:4,window:6,stride:6,scored:6}",
)


@pytest.fixture
def model(experiment: Compose) -> Callable[..., Any]:
    return lambda *overrides: build.model(experiment(*overrides)).double().eval()


@pytest.mark.parametrize("cell", CELLS)
def test_recurrent_networks_are_torchs(model: Callable[..., Any], cell: str) -> None:
    ours = model(f"model={cell}", "model.input=5", "model.width=7", "model.layers=3", "dataset=nottingham").backbone
    theirs: Any = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[cell](5, 7, 3, batch_first=True).double()
    weights = {
        name.replace("_l0", f"_l{layer}"): parameter
        for layer, part in enumerate(ours.layers)
        for name, parameter in part.kernel.named_parameters()
    }
    theirs.load_state_dict(weights)
    x = torch.randn(2, 9, 5, dtype=torch.float64)
    features, states = ours(x)
    expected, state = theirs(x)
    torch.testing.assert_close(features, expected)
    for position, whole in enumerate(state if cell == "lstm" else (state,)):
        torch.testing.assert_close(torch.stack([layer[position] for layer in states]), whole)


def test_an_lstm_trains_in_fp32_on_a_cpu(model: Callable[..., Any]) -> None:
    """Under autocast, the LSTM equals the network outside it, bit for bit, in any precision of its input and state."""
    layer = model("model=lstm", *CARRIED).backbone.layers[0].float()
    same, x, state = copy.deepcopy(layer), torch.randn(3, 5, 12), (torch.randn(3, 12), torch.randn(3, 12))
    expected, after = same(x.bfloat16().float(), tuple(part.bfloat16().float() for part in state))
    with torch.autocast("cpu", torch.bfloat16):
        actual, later = layer(x.bfloat16(), tuple(part.bfloat16() for part in state))
    expected.sum().backward()
    actual.sum().backward()
    assert actual.dtype == torch.float32 and torch.equal(actual, expected)
    assert all(torch.equal(part, reference) for part, reference in zip(later, after, strict=True))
    for part, reference in zip(layer.parameters(), same.parameters(), strict=True):
        assert torch.equal(part.grad, reference.grad)


@pytest.mark.parametrize("cell", CELLS)
def test_segment_by_segment_is_the_whole_at_once(model: Callable[..., Any], cell: str) -> None:
    ours = model(f"model={cell}", *CARRIED)
    tokens = torch.randint(380, (3, 12))
    whole, last = ours(tokens)
    state, pieces = None, []
    for piece in tokens.split([1, 5, 4, 2], dim=1):
        features, state = ours(piece, state)
        pieces.append(features)
    torch.testing.assert_close(torch.cat(pieces, 1), whole)
    mapped(lambda part: torch.testing.assert_close(part.shape, torch.Size((3, 12))), state)  # lanes come first
    for part, other in zip(state[1], last[1], strict=True):  # type: ignore[index]
        torch.testing.assert_close(part, other)


@pytest.mark.parametrize("cell", CELLS)
def test_a_state_gate_stands_between_two_steps(
    model: Callable[..., Any], cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step computes h' = gate(h, s), as with torch's cells step by step; an LSTM's C is unchanged."""
    monkeypatch.setitem(GATES["state"], "leaky", leaky.CARD)
    ours = model(f"model={cell}", *CARRIED, "model.layers=1", "gate.state.name=leaky")
    step: Any = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}[cell](12, 12).double()
    (layer,) = ours.backbone.layers
    step.load_state_dict({name.removesuffix("_l0"): part for name, part in layer.kernel.named_parameters()})
    tokens = torch.randint(380, (3, 5))
    h = c = torch.zeros(3, 12, dtype=torch.float64)
    features, _ = ours(tokens)
    for t, read in enumerate(ours.embedding(tokens).unbind(1)):
        if cell == "lstm":
            new, c = step(read, (h, c))
        else:
            new = step(read, h)
        h = h + torch.sigmoid(layer.gate.leak) * (new - h)
        torch.testing.assert_close(features[:, t], h)


def test_dropout_of_recurrent_networks(experiment: Compose) -> None:
    """Dropout acts on the output of each layer, including the last, and not in evaluation."""
    ours = build.model(experiment("model=gru", *CARRIED, "model.dropout=0.5"))
    seen: list[Tensor] = []
    ours.backbone.layers[1].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    features, _ = ours(torch.randint(380, (4, 50)))
    for dropped in (*seen, features):
        assert 0.4 < float((dropped == 0).double().mean()) < 0.6
    assert (ours.eval()(torch.randint(380, (4, 50)))[0] != 0).all()


WIDTHS = [
    (f"r_transformer_t{number}", row)
    for number, rows in {1: ("rnn", "gru"), 2: ("rnn", "gru", "lstm"), 3: ("rnn", "gru"), 4: ("rnn", "gru")}.items()
    for row in rows
]


@pytest.mark.parametrize(("table", "row"), WIDTHS)
def test_widths_are_the_largest_within_tcn(experiment: Compose, table: str, row: str) -> None:
    """The tables state our own sizes correctly: at paper budget each width is the largest within the TCN's size."""

    def size(row: str, wider: int = 0) -> int:
        described = experiment(*load_table(table).overrides(load_table(table).row(row), "paper", 1))
        described.model.width += wider
        with torch.device("meta"):
            return sum(parameter.numel() for parameter in build.model(described).parameters())

    assert size(row) <= size("tcn") < size(row, wider=1)


def test_dropout_of_tcn(experiment: Compose) -> None:
    """Dropout acts after each convolution, and not in evaluation."""
    block = build.model(experiment("model=tcn", "dataset.source=sample", "model.dropout=0.5")).backbone.blocks[0]
    seen: list[Tensor] = []
    block.second.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        block.first.bias.fill_(10.0)  # all values are above 0 except the dropped ones
        block(torch.randn(4, 100, 60))
        assert 0.48 < float((seen[0] == 0).double().mean()) < 0.52
        block.eval()(torch.randn(4, 100, 60))
        assert (seen[1] > 0).all()


TCNS = {
    "char": ("model=tcn", "dataset=ptb_char", "model.width=9", "model.input=6", "model.output=6"),
    "music": ("model=tcn_music", "dataset=nottingham", "model.width=7"),
}


@pytest.mark.parametrize("size", TCNS)
def test_tcn_is_the_public_one(model: Callable[..., Any], size: str) -> None:
    pytest.importorskip("pytorch_tcn")
    ours = model(*TCNS[size], "dataset.source=sample").backbone
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(0.1 * torch.rand_like(parameter))
    theirs = PublicTCN(ours).double().eval()
    for block, public in zip(ours.blocks, theirs.inner.network, strict=True):
        for convolution, other in ((block.first, public.conv1), (block.second, public.conv2)):
            other.bias.data = convolution.bias.data
            other.parametrizations.weight.original0.data = convolution.gain.data[:, None, None]
            other.parametrizations.weight.original1.data = convolution.weight.data
        if public.downsample is not None:
            public.downsample.load_state_dict(block.shortcut.state_dict())
    x = torch.randn(2, 40, ours.blocks[0].first.weight.shape[1], dtype=torch.float64)
    torch.testing.assert_close(ours(x)[0], theirs(x)[0])


def test_tcn_reads_so_far_back_and_not_ahead(model: Callable[..., Any]) -> None:
    """Two convolutions a block with dilation 1, 2, 4 read 1 + 2 (3 - 1) (1 + 2 + 4) = 29 positions back, none ahead."""
    ours = model(*TCNS["char"], "dataset.source=sample").backbone
    x = torch.randn(1, 50, 6, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(ours(x)[0][0, 40].square().sum(), x)
    reached = gradient[0].abs().sum(-1).nonzero().flatten().tolist()
    assert (min(reached), max(reached)) == (40 - 28, 40)


def test_tcn_starts_as_the_released_code_does(experiment: Compose) -> None:
    """Convolutions start as torch's own, with gains that leave them unchanged; 1 x 1 maps as N(0, 0.01)."""
    first = build.model(experiment("model=tcn", "dataset.source=sample")).backbone.blocks[0]
    bound = 1 / (3 * 100) ** 0.5
    assert 0.99 * bound < first.first.weight.abs().max() <= bound
    torch.testing.assert_close(first.first.gain, first.first.weight.flatten(1).norm(dim=1))
    assert first.shortcut.weight.detach().std().item() == pytest.approx(0.01, rel=0.02)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (("model=tcn_pixels", "dataset=mnist"), 66_910),
        (("model=tcn_music", "dataset=nottingham"), 882_538),
        (("model=tcn", "dataset=ptb_char"), 2_221_999),
        (("model=tcn_word", "dataset=ptb_word"), 14_659_600),
        (("model=lstm", "model.input=1", "model.width=130", "dataset=mnist"), 70_470),
    ],
)
def test_parameter_counts(experiment: Compose, overrides: tuple[str, ...], expected: int) -> None:
    """Counts equal those by hand: a block's convolutions, its 1 x 1 maps, and the ends of the model.

    A convolution has in x out x kernel weights, plus twice the size of a bias.
    """
    with torch.device("meta"):
        model = build.model(experiment(*overrides))
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


def test_a_text_is_predicted_by_what_it_is_read_by(experiment: Compose) -> None:
    with pytest.raises(Refused, match="tcn reads vectors of width 5 and returns vectors of width 100"):
        experiment("model=tcn", "model.input=5")
