"""Recurrent highway networks and their state gate: equations, gradients, masks, evaluation, published counts."""

import csv
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from highway.blocks import kernels, rhn_loop, rhn_step
from highway.blocks.kernels import Captured, Given
from highway.blocks.rhn_loop import Loop
from highway.cards.datasets import Cut
from highway.cards.gates import StateGateOptions
from highway.config.compose import experiment as composed
from highway.config.experiment import Experiment
from highway.data import sample_texts
from highway.data.windows import TextBatch, Windows
from highway.describe import named_parameters
from highway.gates.gate import build_gate
from highway.gates.state import HighwayStateGate
from highway.models import rhn
from highway.models.backbone import flattened, mapped
from highway.report.collect import collect
from highway.report.write import write_report
from highway.run import build
from highway.tables.reading import load_table
from highway.tasks import recurrent_figures as figures
from highway.tasks.recurrent_figures import gate_values, gradient_norms
from highway.testing.runs import assert_resumes_exactly, trained

Compose = Callable[..., Experiment]
RHN = (
    "model=rhn", "model.width=6", "model.depth=3", "dataset=ptb_word_rhn", "optimizer=sgd_rhn", "trainer=rhn",
    "layers=none", "dataset.source=sample",
)  # fmt: skip


class Inherits(HighwayStateGate):
    """The same gate by another name: its backward pass is not written out."""


def naive(
    x: Tensor, state: Tensor, w: dict[str, Tensor], r: list[dict[str, Tensor]], b: list[dict[str, Tensor]],
    drop: Tensor | None, hsg: tuple[Tensor, Tensor, Tensor] | None, dropped: bool = True,
) -> Tensor:  # fmt: skip
    """Compute Eqs. 1-6 as printed, a map at a time: x (T, B, I), state (B, D) -> states (T, B, D)."""
    states = []
    drop = torch.ones_like(state) if drop is None else drop
    for t in range(len(x)):
        s = state
        for layer in range(len(r)):
            maps = {}
            for name in w:
                maps[name] = (s * drop) @ r[layer][name].T + b[layer][name]
                if layer == 0:
                    maps[name] = maps[name] + x[t] @ w[name].T
            h, transform = torch.tanh(maps["h"]), torch.sigmoid(maps["t"])
            carry = torch.sigmoid(maps["c"]) if "c" in maps else 1 - transform
            s = h * transform + s * carry
        if hsg:
            w_r, w_f, bias = hsg
            by = drop if dropped else torch.ones_like(state)
            g = torch.sigmoid((state * by) @ w_r.T + (s * by) @ w_f.T + bias)
            s = g * state + (1 - g) * s
        state = s
        states.append(state)
    return torch.stack(states)


@pytest.mark.parametrize("name", ["none", "hsg", "hsg undropped", "hsg by autograd"])
@pytest.mark.parametrize("coupled", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_equals_the_equations_and_their_gradients(masked: bool, coupled: bool, name: str) -> None:
    same_as_naive("cpu", masked, coupled, name)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["none", "hsg"])
@pytest.mark.parametrize("width", [6, 5])  # with 5, every other step begins at an address that is no multiple of 16
def test_a_recorded_graph_equals_them_too(width: int, name: str) -> None:
    same_as_naive("cuda", True, True, name, width)


def same_as_naive(device: str, masked: bool, coupled: bool, name: str, width: int = 6) -> None:
    torch.manual_seed(0)
    steps, batch, inputs, depth, names = 5, 3, 4, 3, "ht" if coupled else "htc"

    def some(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, device=device, requires_grad=True)

    x, start = some(steps, batch, inputs), some(batch, width)
    w = {part: some(width, inputs) for part in names}
    r = [{part: some(width, width) for part in names} for _ in range(depth)]
    b = [{part: some(width) for part in names} for _ in range(depth)]
    drop = (torch.rand(batch, width, dtype=torch.float64, device=device) > 0.3) / 0.7 if masked else None
    options = StateGateOptions(name=name.split()[0], dropped="undropped" not in name)
    state_gate = build_gate("state", options.name, width, options).double().to(device)
    for parameter in state_gate.parameters():
        torch.nn.init.normal_(parameter)
    hsg: Any = tuple(state_gate.parameters()) or None
    if "autograd" in name:
        state_gate.__class__ = Inherits
        state_gate.unused = torch.nn.Parameter(torch.zeros_like(start[0]))

    expected = naive(x, start, w, r, b, drop, hsg, options.dropped)
    loop = Loop(state_gate, depth)
    for _ in range(2):  # on CUDA the second call replays what the first has recorded
        reads = x @ torch.cat(list(w.values())).T + torch.cat(list(b[0].values()))
        weights = [torch.cat(list(of_layer.values())) for of_layer in r]
        actual = loop(reads, start, drop, weights, [torch.cat(list(of_layer.values())) for of_layer in b[1:]])
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-8)

        every = [x, start, *w.values(), *(part for of_layer in (*r, *b) for part in of_layer.values()), *(hsg or ())]
        into = torch.randn_like(expected)
        for ours, theirs in zip(
            torch.autograd.grad(actual, every, into),
            torch.autograd.grad(expected, every, into, retain_graph=True),
            strict=True,
        ):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("precision", "masked", "coupled", "name"),
    [
        (torch.float32, True, True, "none"),
        (torch.float32, False, False, "none"),
        (torch.float32, True, False, "hsg"),
        (torch.float32, False, True, "hsg"),
        (torch.bfloat16, True, True, "hsg undropped"),
        (torch.bfloat16, False, False, "hsg"),
    ],
)
def test_compiled_between_products_it_is_the_same(
    monkeypatch: pytest.MonkeyPatch, precision: torch.dtype, masked: bool, coupled: bool, name: str
) -> None:
    """Compiled elementwise functions equal the plain ones, and each is compiled once for all steps and windows."""
    monkeypatch.setattr(rhn_loop, "precision_of_products", lambda _: precision)
    for module in (rhn_loop, rhn_step):
        monkeypatch.setattr(module, "packed_linear", lambda matrix, _: lambda x: x @ matrix.t())
    torch._dynamo.reset()
    options = StateGateOptions(name=name.split()[0], dropped="undropped" not in name)
    state_gate = build_gate("state", options.name, 6, options)
    maps, depth = 12 if coupled else 18, 3
    parameters = [torch.randn(maps, 6) for _ in range(depth)], [torch.randn(maps) for _ in range(depth - 1)]
    for parameter in state_gate.parameters():
        torch.nn.init.normal_(parameter)
    for parameter in itertools.chain(*parameters):
        parameter.requires_grad_()
    drop = (torch.rand(4, 6) > 0.3) / 0.7 if masked else None
    counters: dict[Any, CompileCounterWithBackend] = {}

    def outcome(reads: Tensor, start: Tensor) -> list[Tensor]:
        states = Loop(state_gate, depth)(reads, start, drop, *parameters)
        with torch.no_grad():
            again = Loop(state_gate, depth)(reads, start, drop, *parameters)
        every = [reads, start, *itertools.chain(*parameters), *state_gate.parameters()]
        return [states, again, *torch.autograd.grad(states.square().sum(), every)]

    def compiled(function: Any, like: Tensor) -> Any:
        counter = counters.setdefault(function, CompileCounterWithBackend("aot_eager"))
        return torch.compile(function, backend=counter, dynamic=False, fullgraph=True)

    for length in (5, 3):
        given = torch.randn(length, 4, maps, requires_grad=True), torch.randn(4, 6, requires_grad=True)
        plain = outcome(*given)
        with monkeypatch.context() as patched:
            for module in (rhn_loop, rhn_step):
                patched.setattr(module, "fused", compiled)
            fused = outcome(*given)
        tolerance = 1e-5 if precision == torch.float32 else 0.05
        for ours, theirs in zip(fused, plain, strict=True):
            assert (ours - theirs).norm() <= tolerance * theirs.norm()
    separate = masked or precision != torch.float32
    programs = {rhn_step.micro_layer: 1 + separate, rhn_step.micro_layer_back: 2}  # with and without its last arguments
    for function in (rhn_step.pair_read, rhn_step.hsg, rhn_step.hsg_back, rhn_step.add_pair_read):
        programs |= {function: 1} if name != "none" else {}
    assert {function: counter.frame_count for function, counter in counters.items()} == programs


@pytest.mark.parametrize("extra", [(), ("gate=hsg",), ("model.layers=2", "gate=hsg"), ("model.coupled=false",)])
def test_the_whole_model_is_those_equations(experiment: Compose, extra: tuple[str, ...]) -> None:
    """The model with its embedding and without dropout equals the equations, also from a state of an earlier call."""
    model = build.model(experiment(*RHN, *extra)).double().eval()
    tokens = torch.randint(389, (2, 7))
    x = model.embedding(tokens).transpose(0, 1)
    for layer in model.backbone.layers:
        names = "ht" if model.backbone.layers[0].micro[0].weight.shape[0] == 12 else "htc"
        w = dict(zip(names, layer.input.weight.split(6), strict=True))
        r = [dict(zip(names, micro.weight.split(6), strict=True)) for micro in layer.micro]
        b = [{name: getattr(micro, f"bias_{name}") for name in names} for micro in layer.micro]
        hsg: Any = tuple(layer.gate.parameters()) or None
        x = naive(x, torch.zeros(2, 6, dtype=torch.float64), w, r, b, None, hsg)
    whole, state = model(tokens)
    torch.testing.assert_close(whole, x.transpose(0, 1), rtol=0, atol=1e-12)
    first, between = model(tokens[:, :3])
    second, after = model(tokens[:, 3:], between)
    torch.testing.assert_close(torch.cat([first, second], 1), whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(after, state, rtol=0, atol=1e-12)


def test_a_shut_state_gate_is_the_rhn_and_shares_its_start(experiment: Compose) -> None:
    tokens = torch.randint(389, (2, 7))
    plain = build.model(experiment(*RHN)).double().eval()
    gated = build.model(experiment(*RHN, "gate=hsg", "gate.state.bias=-50")).double().eval()
    shared = named_parameters(plain)
    assert all(
        torch.equal(value, shared[name]) for name, value in named_parameters(gated).items() if "gate" not in name
    )
    with torch.no_grad():
        gated.backbone.layers[0].gate.of_previous.zero_()
        gated.backbone.layers[0].gate.of_new.zero_()
        gated.backbone.layers[0].gate.bias.fill_(-1e4)
    assert torch.equal(plain(tokens)[0], gated(tokens)[0])


def test_masks_are_drawn_once_a_window_for_every_lane(experiment: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Tensor] = []
    original = rhn.mask

    def seen(*about: Any) -> Tensor | None:
        drawn.append(original(*about))  # type: ignore[arg-type]
        return drawn[-1]

    monkeypatch.setattr(rhn, "mask", seen)
    model = build.model(experiment(*RHN, "gate=hsg", "model.width=400", "model.dropout_embedding_words=0"))
    model.train()
    tokens = torch.randint(389, (3, 5))
    features, _ = model(tokens)
    assert [tuple(part.shape) for part in drawn] == [(3, 400)] * 3  # of the input, the state and the output
    for part, kept in zip(drawn, (0.25, 0.75, 0.25), strict=True):
        assert part.unique().tolist() == pytest.approx([0.0, 1 / kept], rel=1e-4)
        assert abs(float((part > 0).float().mean()) - kept) < 0.06
        assert not torch.equal(part[0], part[1])
    assert torch.all((features == 0) == (drawn[2] == 0)[:, None])  # the same at every step

    of_input, of_state, of_output = drawn
    layer = model.backbone.layers[0]
    x = model.embedding(tokens).transpose(0, 1) * of_input
    w = dict(zip("ht", layer.input.weight.split(400), strict=True))
    r = [dict(zip("ht", micro.weight.split(400), strict=True)) for micro in layer.micro]
    b = [{name: getattr(micro, f"bias_{name}") for name in "ht"} for micro in layer.micro]
    expected = naive(x, torch.zeros(3, 400), w, r, b, of_state, tuple(layer.gate.parameters()))
    torch.testing.assert_close(features, (expected * of_output).transpose(0, 1), rtol=1e-4, atol=1e-6)
    model(tokens)
    assert not torch.equal(drawn[0], drawn[3])  # the next window has its own
    drawn.clear()
    model.eval()(tokens)
    assert drawn == [None] * 3
    drawn.clear()
    build.model(experiment(*RHN, "model.layers=2", "model.width=50")).train()(tokens)
    assert len(drawn) == 5  # two per layer, and that of the output
    assert not torch.equal(drawn[1], drawn[3])


def test_a_word_is_dropped_wherever_a_lane_has_it(experiment: Compose) -> None:
    model = build.model(experiment(*RHN, "model.dropout_embedding_words=0.5")).train()
    read: list[Tensor] = []
    model.backbone.forward = lambda x, state: (read.append(x), state)
    tokens = torch.randint(3, (40, 50))
    model(tokens)
    kept = read[0].abs().sum(-1) > 0
    for lane, word in itertools.product(range(40), range(3)):
        assert len(kept[lane][tokens[lane] == word].unique()) <= 1
    assert 0.3 < kept.float().mean() < 0.7
    assert torch.allclose(read[0][kept], 2 * model.embedding(tokens)[kept])
    assert not torch.equal(kept[0], kept[1])


@pytest.mark.parametrize(
    ("depth", "plain", "gated"),
    [
        (10, 23_482_400, 24_861_030),
        (20, 37_277_000, 38_655_630),
        (30, 51_071_600, 52_450_230),
        (40, 64_866_200, 66_244_830),
    ],
)
def test_parameters_are_the_papers(experiment: Compose, depth: int, plain: int, gated: int) -> None:
    for overrides, count in (((), plain), (("gate=hsg",), gated)):
        described = experiment("model=rhn", f"model.depth={depth}", "dataset=ptb_word_rhn", "layers=none", *overrides)
        with torch.device("meta"):
            assert sum(parameter.numel() for parameter in build.model(described).parameters()) == count


def test_everything_learns_and_starts_as_the_code_has_it(experiment: Compose) -> None:
    model = build.model(experiment(*RHN, "gate=hsg", "model.coupled=false", "model.bias=-3")).eval()
    features, _ = model(torch.randint(389, (3, 5)))
    model.logits(features).logsumexp(-1).sum().backward()
    for name, parameter in named_parameters(model).items():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name
        fixed = {"bias_t": -3.0, "bias_c": 3.0, "gate.bias": -2.5}
        value = next((value for end, value in fixed.items() if name.endswith(end)), None)
        if value is not None:
            assert torch.all(parameter == value), name
        else:
            assert parameter.abs().max() <= 0.04 and parameter.std() > 0.01, name


@pytest.mark.parametrize("packs", [True, False])
@pytest.mark.parametrize("bf16", [True, False])
def test_products_are_those_of_double_precision(
    experiment: Compose, monkeypatch: pytest.MonkeyPatch, bf16: bool, packs: bool
) -> None:
    """Values and gradients are close with and without packed matrices; a CPU's loop computes in fp32 in any case."""
    monkeypatch.setattr(kernels, "can_pack", lambda: packs)
    model, exact = (build.model(experiment(*RHN, "gate=hsg", "model.width=64", "model.init=0.3")).eval() for _ in "12")
    exact.double()
    tokens, into = torch.randint(389, (3, 5)), torch.randn(3, 5, 64)
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        features, _ = model(tokens)
    assert features.dtype == torch.float32
    features.backward(into)
    expected, _ = exact(tokens)
    expected.backward(into.double())
    pairs = [
        (features, expected),
        *((part.grad, two.grad) for part, two in zip(model.parameters(), exact.parameters(), strict=True)),
    ]
    for ours, theirs in pairs:
        if ours is not None:  # the output's bias has no gradient
            assert (ours - theirs).norm().item() <= (0.05 if bf16 else 1e-4) * theirs.norm().item()


def test_a_processor_without_packed_products_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise RuntimeError("could not create a primitive descriptor")

    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", refuse)
    kernels.can_pack.cache_clear()
    matrix, x = torch.randn(7, 5), torch.randn(3, 5)
    torch.testing.assert_close(kernels.packed_linear(matrix, 3)(x), x @ matrix.T)
    assert not kernels.can_pack()
    kernels.can_pack.cache_clear()


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_the_state_gate_fits_the_rivals(experiment: Compose, cell: str) -> None:
    """The state gate of an LSTM gates h, and not C."""
    overrides = ("model.width=6", "dataset=ptb_word_carried", "dataset.source=sample", "layers=none", "gate=hsg")
    model = build.model(experiment(f"model={cell}", *overrides, "gate.state.bias=0.5")).double().eval()
    tokens = torch.randint(389, (2, 5))
    layer = model.backbone.layers[0]
    weights = [getattr(layer.kernel, name) for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")]
    w_r, w_f, bias = layer.gate.parameters()
    step: Any = {"rnn": torch.rnn_tanh_cell, "gru": torch.gru_cell, "lstm": torch.lstm_cell}[cell]
    h = c = torch.zeros(2, 6, dtype=torch.float64)
    expected = []
    for x in model.embedding(tokens).unbind(1):
        new = step(x, (h, c) if cell == "lstm" else h, *weights)
        new, c = new if cell == "lstm" else (new, c)
        g = torch.sigmoid(h @ w_r.T + new @ w_f.T + bias)
        h = g * h + (1 - g) * new
        expected.append(h)
    torch.testing.assert_close(model(tokens)[0], torch.stack(expected, 1), rtol=0, atol=1e-12)


def test_one_step_at_a_time_scores_as_windows_do(experiment: Compose) -> None:
    task = build.task(experiment(*RHN, "gate=hsg")).double().eval()
    stream = torch.randint(389, (83,))
    losses = []
    for window in (1, 7, 100):
        task.start_evaluation()
        with torch.no_grad():
            for batch in Windows(stream, Cut(lanes=1, window=window, stride=window, scored=window)).together(1):
                task.score(batch)
        assert task.counts["scored"] == 82
        losses.append(float(task.counts["nats"]))
    assert losses == pytest.approx([losses[0]] * 3, abs=1e-9)


def test_the_gradient_is_that_of_the_recipes_loss(experiment: Compose) -> None:
    """The loss is the sum over steps of the mean over lanes, plus a penalty on the weights.

    The penalty is 1e-7 / 2 times the square of every weight; the gradient is clipped at 10.
    """
    still = [f"model.dropout_{name}=0" for name in ("embedding_words", "input", "state", "output")]
    task = build.task(experiment(*RHN, *still, "gate=hsg", "optimizer.weight_decay=5", "dataset.train.lanes=4"))
    task.double()
    tokens = torch.randint(389, (4, 36))
    objective = task.learn(TextBatch(tokens[:, :-1], tokens[:, 1:], 0)).objective
    objective.backward()
    task.prepare_gradients()
    ours = {name: parameter.grad.clone() for name, parameter in named_parameters(task.model).items()}

    features, _ = task.model(tokens[:, :-1])
    chances = task.model.logits(features).log_softmax(-1).gather(2, tokens[:, 1:, None])[..., 0]
    loss = -chances.sum(1).mean()
    assert objective.item() == pytest.approx(loss.item())
    every = named_parameters(task.model)
    loss = loss + 5 / 2 * sum(parameter.square().sum() for parameter in every.values())  # type: ignore[assignment]
    gradients = torch.autograd.grad(loss, list(every.values()))
    norm = float(torch.stack([part.square().sum() for part in gradients]).sum().sqrt())
    assert norm > 10, "else the clipping is not seen"
    for name, gradient in zip(every, gradients, strict=True):
        torch.testing.assert_close(ours[name], gradient * 10 / norm, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("model", ["rhn", "lstm"])
def test_gradients_reach_back_as_far_as_is_said(
    experiment: Compose, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "REACH", 4)
    overrides = (f"model={model}", "model.width=6", "dataset=ptb_word_carried", "dataset.source=sample", "layers=none")
    whole = build.model(experiment(*overrides, *(["gate=hsg"] if model == "rhn" else []))).double().eval()
    stream = torch.randint(389, (1000,))
    norms = gradient_norms(whole, stream)
    lanes = 1000 // (figures.WARM_UP + 3 * 5 + 1)
    text = stream[: 1000 // lanes * lanes].view(lanes, -1)
    reach, expected = len(norms) - 1, torch.zeros(len(norms))
    for position in range(figures.POSITIONS):
        end = figures.WARM_UP + (position + 1) * (
            reach + 1
        )  # of the text read, so this is the position of the prediction
        for back in range(1, reach + 1):
            _, state = whole(text[:, : end - back])
            flat = [part.detach().requires_grad_() for part in flattened(state)]
            given = iter(flat)
            features, _ = whole(text[:, end - back : end], mapped(lambda _, given=given: next(given), state))
            loss = torch.nn.functional.cross_entropy(whole.logits(features[:, -1]), text[:, end], reduction="sum")
            (gradient,) = torch.autograd.grad(loss, flat[:1])
            expected[back] += gradient.norm(dim=1).mean() / figures.POSITIONS
    torch.testing.assert_close(norms[1:].double(), expected[1:].double(), rtol=1e-4, atol=1e-8)
    assert reach == 4 and torch.all(norms > 0)


def test_gate_values_are_those_of_random_steps(experiment: Compose) -> None:
    model = build.model(experiment(*RHN, "gate=hsg", "model.width=50", "gate.state.bias=0")).eval()
    with torch.no_grad():
        model.backbone.layers[0].gate.bias[:10] = 9.0
    (counts,) = gate_values(model, torch.randint(389, (2000,))).values()
    assert counts.sum() == 80 * 50
    assert counts[-1] == 80 * 10, "what is wide open is in the last part"
    assert counts[40:60].sum() == 80 * 40
    assert gate_values(build.model(experiment(*RHN)), torch.randint(389, (200,))) == {}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Shorten the text to evaluate."""
    monkeypatch.setattr(sample_texts, "SENTENCES", {**sample_texts.SENTENCES, "valid": 30, "test": 30})
    sample_texts.penn_treebank.cache_clear()
    yield
    sample_texts.penn_treebank.cache_clear()


FEW = (
    "budget=smoke",
    "trainer.max_steps=2",
    "trainer.validate_every=1",
    "trainer.accelerator=cpu",
    "trainer.threads=1",
)


def test_the_test_split_has_a_curve_where_it_is_asked_for(experiment: Compose, short: None) -> None:
    for curve_of_test, splits in (("true", {"train", "valid", "test"}), ("false", {"train", "valid"})):
        cell, _ = trained(experiment(*RHN, *FEW, f"trainer.test_curve={curve_of_test}", "debug.windows=2"))
        with open(cell.curves, newline="") as file:
            rows = list(csv.DictReader(file))
        assert {row["split"] for row in rows} == splits
        of = {
            split: [row["value"] for row in rows if (row["split"], row["metric"]) == (split, "ppl")] for split in splits
        }
        assert len(of["valid"]) == 2 and of["valid"] != of.get("test")


@pytest.mark.parametrize("precision", ["32", "bf16"])
def test_a_stopped_run_goes_on_exactly(experiment: Compose, short: None, tmp_path: Path, precision: str) -> None:
    overrides = (*RHN, *FEW, "trainer.max_steps=4", f"trainer.precision={precision}", "gate=hsg", "dataset.final=null")
    whole, result = trained(experiment(*overrides))
    described = experiment(*overrides, f"outputs_dir={tmp_path / 'stopped'}")
    assert_resumes_exactly(described, (2,), whole, result)


def test_figures_are_drawn_from_runs(short: None, tmp_path: Path) -> None:
    table = load_table("hsg_t1")
    few = (*FEW[1:], "model.width=8")
    for row in ("rhn_10", "hsg_10"):
        trained(composed([*table.overrides(table.row(row), "smoke", 1), *few, f"outputs_dir={tmp_path}"]))
    smaller = table.model_copy(update={"budgets": {"smoke": [*table.budgets["smoke"], *few]}})
    report, paths = write_report(collect(smaller, "smoke", tmp_path), tmp_path / "report")
    assert {path.stem for path in paths} == {"table", "convergence", "gate_values", "depth", "gradients"}
    drawn = {path.stem: path.read_text() for path in paths if path.suffix == ".svg"}
    assert "RHN 10 + HSG: 640 values" in drawn["gate_values"] and ">RHN 10 + HSG<" in drawn["gradients"]
    ours = {line.texts[0]: line.texts[report.results.heads.index("ours")] for line in report.results.lines}
    assert [label for label, text in ours.items() if text != "not run"] == ["RHN 10", "RHN 10 + HSG"]


class Replayed:
    """A stand-in for a CUDA graph: replaying computes into the same tensors again."""

    def replay(self) -> None:
        for output, again in zip(self.outputs, self.function(*self.inputs), strict=True):
            output.copy_(again)


def test_calls_of_a_recorded_graph_do_not_share_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(self: Captured, given: Given) -> object:
        graph = Replayed()
        graph.function = self.function
        graph.inputs = tuple(None if tensor is None else tensor.detach().clone() for tensor in given)
        graph.outputs = self.function(*graph.inputs)
        return graph, graph.inputs, graph.outputs

    monkeypatch.setattr(Captured, "_record", record)
    doubled = Captured(lambda x, drop: (2 * x,))
    first, second = doubled(torch.ones(2), None)[0], doubled(torch.full((2,), 3.0), None)[0]
    assert first.tolist() == [2, 2] and second.tolist() == [6, 6]
    assert len(doubled.recorded) == 1
    doubled(torch.ones(3), None)
    assert len(doubled.recorded) == 2
