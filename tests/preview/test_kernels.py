"""Kernels per training step, counted without a GPU."""

from dataclasses import replace

import pytest
import torch
from rich.console import Console

from highway.config.compose import experiment
from highway.preview import kernels as counted_kernels
from highway.preview.explain import explain_table
from highway.preview.kernels import Counting, Kernels, counted, kernels, update_kernels
from highway.sweep.reading import load_table

RHN = ("model=rhn", "dataset=ptb_word_rhn", "layers=none", "dataset.source=sample", "optimizer=sgd_rhn")


def test_what_counts_as_a_kernel() -> None:
    """Operators that compute count; views and allocations do not."""
    x = torch.ones(4, 6, device="meta")
    with Counting() as counting:
        (x.t() @ x.view(4, 6)).relu_()
        torch.empty_like(x)
        x[:2].unsqueeze(0).expand(3, 2, 6).detach()
    assert counting.counts == {"mm": 1, "relu_": 1}


def test_dropout_is_one_kernel() -> None:
    x = torch.ones(4, device="meta")
    with Counting() as counting:
        torch.nn.functional.dropout(x, 0.1)
    assert counting.kernels == 1


@pytest.mark.parametrize("gate", ["none", "hsg"])
def test_a_window_is_linear_in_its_steps(gate: str) -> None:
    """The count extrapolated from two short windows equals that of the whole window."""
    cut = "dataset.train={lanes:2,window:13,stride:13,scored:13}"
    described = experiment([*RHN, f"gate={gate}", "model.width=6", "model.depth=3", cut])
    whole = counted(described)
    assert kernels(described) == whole
    longer = replace(described.dataset.train, window=26, stride=26, scored=26)
    twice = kernels(replace(described, dataset=replace(described.dataset, train=longer)))
    assert 1.5 * whole.passes < twice.passes < 2 * whole.passes


def test_a_step_that_differs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted_kernels, "LENGTHS", (4, 7))
    uneven = iter([Kernels(10, 1), Kernels(20, 1)])
    monkeypatch.setattr(counted_kernels, "counted", lambda _: next(uneven))
    with pytest.raises(AssertionError, match="the same kernels"):
        kernels(experiment([*RHN]))


def test_updates_do_not_depend_on_how_many_parameters_there_are() -> None:
    described = experiment(["optimizer=adam", "optimizer.clip=0.25"])
    assert update_kernels(described, 3) == update_kernels(described, 50)
    decayed = experiment(["optimizer=adam", "optimizer.clip=0.25", "optimizer.weight_decay=0.1"])
    assert update_kernels(decayed, 50) == update_kernels(described, 50) + 50


def test_recurrent_kernels_of_torch_are_calls_of_cudnn() -> None:
    overrides = ["model=lstm", "model.layers=2", "layers=none", "dataset.source=sample"]
    overrides.append("dataset.train={lanes:2,window:30,stride:20,scored:20}")
    described = experiment(overrides)
    assert kernels(described).cudnn == 4  # two layers, forward and backward
    gated = kernels(experiment([*overrides, "gate=hsg"]))
    assert gated.cudnn == 0 and gated.total > 30 * 2 * 2


def test_explain_shows_them() -> None:
    table = load_table("highway_t3")
    row = experiment(table.overrides(table.rows[0], "smoke", 1))
    console = Console(record=True, width=140)
    explain_table(table, "smoke", console)
    text = console.export_text()
    assert "kernels a step" in text
    assert any(
        line.split()[0] == "baseline" and line.split()[-1] == str(kernels(row))
        for line in text.splitlines()
        if line.split()
    )


@pytest.mark.parametrize("width", [80, 140])
def test_explain_shows_whole_names(width: int) -> None:
    table = load_table("highway_t6")
    row = table.row("sigmoid_l6_12_as_released")
    console = Console(record=True, width=width)
    explain_table(replace(table, rows=(table.rows[0], row)), "smoke", console)
    assert row.id in console.export_text().split()


def test_explain_says_what_validation_chooses() -> None:
    table = load_table("r_transformer_t2")
    gru = table.row("gru")
    assert gru.choose is not None
    alike = replace(table, rows=(table.row("transformer"), gru, table.row("lstm")))
    for budget, expected in (("paper", True), ("smoke", False)):
        console = Console(record=True, width=400)
        explain_table(alike, budget, console)
        text = console.export_text()
        assert (f"chosen by validation in gru, lstm: {gru.choose.rule}" in text) is expected
        assert ("chosen by validation in transformer: " in text) is expected
