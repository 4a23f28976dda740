"""scripts/benchmark.py as typed, and its choice of contenders."""

import dataclasses
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import benchmark
import measuring
import pytest
import torch

from highway.ledger.files import read_json
from highway.run.trial import Entry
from highway.sweep.reading import load_table

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the packages that we compare with


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str], tuple[int, str, str]]:
    """Return a function that runs the script at smoke budget, in the least time: exit code, output and errors.

    The processes that measure memory are left out, and so are the large products that tell a processor's peak.
    """
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(measuring, "peak_memory", lambda entry, threads: 2**20)
    monkeypatch.setattr(measuring, "matrix_peak", lambda device, dtype: 1e12)

    def run(line: str) -> tuple[int, str, str]:
        options = "--budget smoke --rounds 1 --threads 1"
        monkeypatch.setattr(sys, "argv", ["benchmark.py", *line.split(), *options.split()])
        code = 0
        try:
            benchmark.main()
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_benchmark(typed: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    """On a small shape every contender trains, and the record holds what the table shows."""
    code, out, _ = typed("highway_t3 --precision 32")
    assert code == 0
    record = read_json(tmp_path / "outputs" / "bench" / "highway_t3-baseline-smoke-cpu.json")
    names = [row["name"] for row in record["rows"]]
    assert names[:3] == ["ours, 32", "ours with tanh sdu, 32", "torch.nn.TransformerEncoder, 32"]
    assert all(row["tokens_per_second"] > 0 and row["share_of_peak"] > 0 for row in record["rows"])
    assert all(name in out for name in names)
    assert "ours with tanh sdu, 32: " in out and "times the time of ours, 32" in out
    assert "bf16" not in out and not record["remarks"]


def test_a_benchmark_without_figures_fails(
    typed: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that measures times is killed, as when memory is short."""
    monkeypatch.setattr(measuring, "_times", killed)
    code, out, _ = typed("highway_t3 --precision 32")
    assert code == 1
    assert "There are no times: the process that measured them ran out of memory or was killed" in out


def killed(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_benchmark_of_a_local_rnn(typed: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    """The benchmark measures the layer alone, with all operations counted, and the model with gathered windows."""
    code, out, _ = typed("highway_t2 --local-rnn")
    assert code == 0 and "LocalRNN on gathered windows, 32" in out
    ours, gathered, *_ = read_json(tmp_path / "outputs/bench/highway_t2-baseline-smoke-local-rnn-cpu.json")["rows"]
    product = 2 * 16 * 60 * 64 * 3 * 64  # lanes, window, width: of one map of all positions
    assert ours["operations"] == 3 * (1 + 6) * product  # one map of the inputs, six of the state, two backward for each
    assert gathered["operations"] == (3 * (7 + 7) - 1) * product  # no gradient reaches the first state


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (
            "r_transformer_t1 --row rnn",
            "row rnn of r_transformer_t1 has no LocalRNN (its model is recurrent). Type --row r_transformer.",
        ),
        ("highway_t3", "no row of highway_t3 has a LocalRNN. Name a table that has one: highway_t2."),
    ],
)
def test_a_row_without_a_local_rnn(
    typed: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch, line: str, error: str
) -> None:
    monkeypatch.setattr(benchmark, "table_ids", lambda trained: ("highway_t1", "highway_t2"))  # all tables take seconds
    assert typed(f"{line} --local-rnn") == (2, "", f"error: --local-rnn: {error}\n")


ASKED = benchmark.Asked(None, "paper", [], ("32",), "cpu", compiled=False, local_rnn=False)


PROBLEM = "torch.nn.Transformer cannot have 6 heads of width 42 in a model of width 256 (row t_e4h6)."


@pytest.mark.parametrize(
    ("row", "measured", "has_rival", "remark"),
    [
        (None, "t_e4h8", True, f"gated_resnet_t1 is measured at its row t_e4h8: {PROBLEM}"),
        ("t_e4h6", "t_e4h6", False, f"{PROBLEM} Type --row t_e4h8."),
    ],
)
def test_a_benchmark_takes_a_row_that_has_a_counterpart(
    row: str | None, measured: str, has_rival: bool, remark: str
) -> None:
    chosen = benchmark.contenders(load_table("gated_resnet_t1"), dataclasses.replace(ASKED, row=row))
    assert (chosen.row.id, chosen.remarks) == (measured, [remark])
    assert ("torch.nn.Transformer, 32" in [entry.name for entry in chosen.entries]) == has_rival


def test_a_row_that_has_a_gate_is_not_measured_twice() -> None:
    chosen = benchmark.contenders(load_table("highway_t3"), dataclasses.replace(ASKED, row="tanh", budget="smoke"))
    assert [entry.name for entry in chosen.entries if entry.kind == "ours"] == ["ours with tanh sdu, 32"]


def test_a_benchmark_leaves_out_what_ran_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def peak(entry: Entry, threads: int) -> int:
        raise BrokenProcessPool if entry.kind == "ours" else torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(measuring, "peak_memory", peak)
    entries = benchmark.contenders(load_table("highway_t3"), dataclasses.replace(ASKED, budget="smoke")).entries
    record = measuring.measure(entries, rounds=1, threads=1)
    assert record["rows"] == [] and len(record["remarks"]) == len(entries)
    for name in ("torch.nn.TransformerEncoder, 32", "ours with tanh sdu, 32"):
        said = f"{name} is left out: its process ran out of memory or was killed; --set dataset.train.lanes=8 halves"
        assert any(remark.startswith(said) for remark in record["remarks"])


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("highway_t33", "there is no table 'highway_t33'. Did you mean 'highway_t3'?"),
        ("highway_t1 --row nothing", "highway_t1 has no row 'nothing'"),
        ("highway_t1 --set gate=null", "gate=null names no option"),
        ("highway_t1 --decoding folder", "--decoding measures no table: leave out the table's name."),
        ("highway_t1 --precision 16", "invalid choice: '16'"),
        ("highway_t1 --sentences 0", "'0' is not a whole number of at least 1"),
    ],
)
def test_a_mistake_is_one_sentence(typed: Callable[..., tuple[int, str, str]], line: str, sentence: str) -> None:
    code, out, errors = typed(line)
    assert (code, out) == (2, "") and sentence in errors and "Traceback" not in errors
