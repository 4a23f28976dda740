"""Every residual gate against its equation, written naively."""

import pytest
import torch
from torch import Tensor

from highway.cards.gates import GateOptions
from highway.gates.gate import build_gate as made

WIDTH = 6


def residual_gate(name: str, width: int, activation: str, kernel: int) -> torch.nn.Module:
    return made("residual", name, width, GateOptions(residual=name, activation=activation, kernel=kernel))


def naive(name: str, activation: str, gate: torch.nn.Module, x: Tensor, fx: Tensor, reads: Tensor) -> Tensor:
    """Compute the equations of highway/gates/residual.py, one scalar product at a time."""
    if name == "none":
        return x + fx
    out = torch.empty_like(x)
    for b in range(x.shape[0]):
        for t in range(x.shape[1]):
            second = [dot(gate.transform, reads, b, t, d) for d in range(WIDTH)]
            for d in range(WIDTH):
                psi = activation if name.startswith("sdu") else "sigmoid"
                if psi == "one":
                    opening = torch.ones(())
                else:
                    first = dot(gate.transform_gate, reads, b, t, d)
                    opening = {"tanh": first.tanh(), "sigmoid": first.sigmoid(), "identity": first}[psi]
                out[b, t, d] = {
                    "sdu": x[b, t, d] + fx[b, t, d] + opening * second[d],
                    "sdu_conv": x[b, t, d] + fx[b, t, d] + opening * second[d],
                    "highway": (1 - opening) * x[b, t, d] + opening * second[d] + fx[b, t, d],
                    "gated_mhdpa": x[b, t, d] + (1 - opening) * fx[b, t, d] + opening * second[d],
                }[name]
    return out


def dot(layer: torch.nn.Module, x: Tensor, b: int, t: int, d: int) -> Tensor:
    total = layer.bias[d].clone()
    if isinstance(layer, torch.nn.Linear):
        for e in range(WIDTH):
            total = total + layer.weight[d, e] * x[b, t, e]
        return total
    kernel = layer.weight.shape[-1]
    for k in range(kernel):
        position = t - (kernel - 1) + k
        if position >= 0:  # the left context is zero
            total = total + layer.weight[d, 0, k] * x[b, position, d]
    return total


@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "one", "identity"])
@pytest.mark.parametrize("name", ["none", "sdu", "sdu_conv", "highway", "gated_mhdpa"])
@torch.no_grad()
def test_gate_equals_its_equation(name: str, activation: str) -> None:
    torch.manual_seed(0)
    gate = residual_gate(name, WIDTH, activation, kernel=3).double()
    x, fx, reads = torch.randn(3, 2, 5, WIDTH, dtype=torch.float64)
    torch.testing.assert_close(gate(x, fx, reads), naive(name, activation, gate, x, fx, reads))


def test_gates_differ_from_each_other() -> None:
    torch.manual_seed(0)
    x, fx = torch.randn(2, 1, 4, WIDTH)
    names = ["none", "sdu", "sdu_conv", "highway", "gated_mhdpa"]
    sums = [residual_gate(name, WIDTH, "tanh", 3)(x, fx, x) for name in names]
    for i, first in enumerate(sums):
        for second in sums[i + 1 :]:
            assert (first - second).abs().max() > 1e-3


def test_closed_highway_gate_is_the_residual_model() -> None:
    gate = residual_gate("highway", WIDTH, "sigmoid", 3)
    with torch.no_grad():
        gate.transform_gate.bias.fill_(-1e4)
    x, fx = torch.randn(2, 1, 4, WIDTH)
    torch.testing.assert_close(gate(x, fx, x), x + fx)


def test_the_biases_of_transform_gates_are_kept() -> None:
    for name in ("sdu", "sdu_conv", "highway", "gated_mhdpa"):
        gate = residual_gate(name, WIDTH, "tanh", 3)
        ((kept, bias),) = gate.probes().items()
        assert kept == "gate_biases" and bias is gate.transform_gate.bias
    assert residual_gate("none", WIDTH, "tanh", 3).probes() == residual_gate("sdu", WIDTH, "one", 3).probes() == {}


@pytest.mark.parametrize(("name", "each"), [("sdu", 512**2 + 512), ("sdu_conv", 512 * 3 + 512)])
def test_parameters_of_units(name: str, each: int) -> None:
    """A unit has two maps; if psi is one, it has W2 and b2 alone."""
    for activation, maps in {"sigmoid": 2, "tanh": 2, "identity": 2, "one": 1}.items():
        gate = residual_gate(name, 512, activation, 3)
        assert sum(parameter.numel() for parameter in gate.parameters()) == maps * each
