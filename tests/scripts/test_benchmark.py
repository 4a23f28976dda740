"""scripts/benchmark.py as typed, and its choice of contenders."""

import csv
import dataclasses
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import benchmark
import contenders
import measuring
import pytest
import torch

from highway.tables.reading import load_table
from highway.timing.stopwatch import Entry, own_process

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the packages that we compare with


class InThisProcess(Executor):
    """A pool whose work is done at once, where stand-ins count."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(work(*arguments, **options))
        return future


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure in this process and few steps, without memory and the large products that tell a processor's peak."""
    monkeypatch.setattr(measuring, "own_process", InThisProcess)
    monkeypatch.setattr(measuring.start, "set_up_torch", lambda threads: None)
    monkeypatch.setattr(measuring, "peak_memory", lambda entry, threads: 2**20)
    monkeypatch.setattr(measuring, "matrix_peak", lambda device, dtype: 1e12)
    monkeypatch.setattr(measuring, "WARM_UP", {"cpu": 1})
    monkeypatch.setattr(measuring, "BLOCK_SECONDS", 1e-9)


@pytest.fixture
def typed(
    quick: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], tuple[int, str, str]]:
    """Return a function that runs the script at smoke budget, in the least time: exit code, output and errors."""
    monkeypatch.setenv("COLUMNS", "160")

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


def lines_of(folder: Path) -> list[dict[str, str]]:
    """Read the only CSV file of a benchmark."""
    (path,) = (folder / "outputs" / "bench").glob("*.csv")
    return list(csv.DictReader(path.read_text().splitlines()))


def test_benchmark(typed: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    """On small shapes every contender trains, and one file holds the lines of all tables."""
    code, out, _ = typed("highway_t3 hsg_t1 --precision 32 --set optimizer.lr=0.1")
    assert code == 0
    lines = lines_of(tmp_path)
    assert [(line["table"], line["row"], line["contender"]) for line in lines] == [
        ("highway_t3", "baseline", "ours, 32"),
        ("highway_t3", "baseline", "ours with tanh sdu, 32"),
        ("highway_t3", "baseline", "torch.nn.TransformerEncoder, 32"),
        ("highway_t3", "baseline", "x-transformers, 32"),
        ("hsg_t1", "rhn_10", "ours, 32"),
        ("hsg_t1", "rhn_10", "ours with hsg, 32"),
        ("hsg_t1", "rhn_10", "plain loop, 32"),
    ]
    shared = {"budget": "smoke", "options": "optimizer.lr=0.1", "threads": "1", "precision": "32", "mode": "eager"}
    for line in lines:
        assert shared.items() <= line.items() and line["mib"] == "1" and not line["kernels"]
        assert float(line["tokens_per_second"]) > 0 and float(line["share_of_peak"]) > 0
        assert float(line["ms"]) * float(line["tokens_per_second"]) == pytest.approx(
            1000 * int(line["tokens"]), rel=1e-2
        )
        assert line["contender"] in out
    assert [line["contender"] for line in lines if line["ratio"] == "1.0"] == [lines[2]["contender"], "plain loop, 32"]
    assert "ours with tanh sdu, 32: " in out and "times the time of ours, 32" in out


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """List what is compiled, and how; nothing is."""
    seen: list[tuple[str, dict[str, Any]]] = []

    def compiled(function: Any, **options: Any) -> Any:
        seen.append((type(function.__self__).__name__, options))
        return function

    monkeypatch.setattr(torch, "compile", compiled)
    return seen


def test_all_are_compiled_alike(
    typed: Callable[..., tuple[int, str, str]], compilations: list[tuple[str, dict[str, Any]]], tmp_path: Path
) -> None:
    assert typed("highway_t5 gated_resnet_t1 --compile")[0] == 0
    assert [(name, options["dynamic"]) for name, options in compilations] == [
        *[("Symbols", False)] * 2,
        ("XTransformerWithMemory", False),
        *[("Pieces", True)] * 3,
        ("TorchTransformer", True),
    ]
    assert {options["mode"] for _, options in compilations} == {"default"}
    assert {(line["mode"], line["mib"]) for line in lines_of(tmp_path)} == {("default", "")}


@pytest.mark.parametrize(
    ("table", "device", "modes"),
    [
        ("highway_t3", "cuda", {"reduce-overhead", "whole"}),  # ours is also timed as one graph
        ("hsg_t1", "cuda", {None, "whole"}),  # its loop is a graph of its own
        ("gated_resnet_t1", "cuda", {"default"}),
        ("highway_t3", "cpu", {"default"}),
    ],
)
def test_all_are_compiled_as_a_run_would_be(
    table: str, device: str, modes: set[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("highway.run.compiled.can_compile", lambda: True)
    asked = dataclasses.replace(ASKED, device=device, compiled=True, precisions=("32", "bf16"))
    for comparison, precision in zip(benchmark.contenders(load_table(table), asked), ("32", "bf16"), strict=True):
        found = {(entry.compiled, entry.precision) for entry in comparison.entries}
        assert found == {(mode, precision) for mode in modes}
        assert all(entry.compiled != "whole" for entry in comparison.entries if entry.kind != "ours")


def test_a_memory_outlives_its_graph(quick: None, compilations: list[Any]) -> None:
    """A CUDA graph overwrites its outputs at its next replay."""
    kept: list[torch.Tensor] = []

    class Graph(contenders.Remembering):
        def window(self, tokens: torch.Tensor, memory: Any) -> tuple[torch.Tensor, Any]:
            for output in kept:
                output.zero_()
            kept.append(tokens + (0 if memory is None else memory[0]))
            return kept[-1], [kept[-1]]

    model = Graph()
    contenders.compile_forward(model, "reduce-overhead", dynamic=False)
    program = model.next_window
    model.next_window = lambda tokens, memory: program(tokens, [memory[0]])  # without a memory it is another program
    model(torch.ones(2), 0)
    given = model.memory
    model(torch.ones(2), 0)
    assert torch.equal(given[0], torch.ones(2)) and torch.equal(model.memory[0], torch.full((2,), 2.0))
    assert [name for name, _ in compilations] == ["Graph"]


def test_a_contender_that_cannot_be_compiled_is_left_out(
    typed: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(function: Any, **_: Any) -> Any:
        if isinstance(function.__self__, contenders.TorchEncoder):
            raise AssertionError("no such operation\nits stack")
        return function

    monkeypatch.setattr(torch, "compile", fails)
    code, out, _ = typed("highway_t3 --compile")
    assert (
        code == 0
        and (
            "torch.nn.TransformerEncoder, 32 is left out: it failed when compiled (AssertionError: no such operation); "
            "--no-compile measures it uncompiled.\n"
        )
        in out
    )
    assert [line["contender"] for line in lines_of(tmp_path) if line["ratio"] == "1.0"] == ["x-transformers, 32"]


def test_a_benchmark_without_figures_fails(
    typed: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that measures is killed, as when memory is short."""
    monkeypatch.setattr(measuring, "own_process", own_process)
    monkeypatch.setattr(measuring, "prepare", killed)
    code, out, _ = typed("highway_t3 --precision 32")
    assert code == 1
    assert "There are no times: the process that measured them ran out of memory or was killed" in out


def killed(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_benchmark_of_a_local_rnn(typed: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    """The benchmark measures the layer alone, with all operations counted, and the model with gathered windows."""
    code, out, _ = typed("highway_t2 --local-rnn")
    assert code == 0 and "LocalRNN on gathered windows, 32" in out
    ours, gathered = lines_of(tmp_path)
    assert ours["options"] == "--local-rnn"
    product = 2 * 16 * 60 * 64 * 3 * 64  # lanes, window, width: of one map of all positions
    assert (
        float(ours["operations"]) == 3 * (1 + 6) * product
    )  # one map of the inputs, six of the state, two backward for each
    assert float(gathered["operations"]) == (3 * (7 + 7) - 1) * product  # no gradient reaches the first state


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


def test_a_row_that_no_table_has(typed: Callable[..., tuple[int, str, str]]) -> None:
    assert typed("--row nothing") == (2, "", "error: no table has the row and the budget that are asked for.\n")


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
    (chosen,) = benchmark.contenders(load_table("gated_resnet_t1"), dataclasses.replace(ASKED, row=row))
    assert (chosen.row.id, chosen.remarks) == (measured, [remark])
    assert ("torch.nn.Transformer, 32" in [entry.name for entry in chosen.entries]) == has_rival


def test_a_row_that_has_a_gate_is_not_measured_twice() -> None:
    (chosen,) = benchmark.contenders(load_table("highway_t3"), dataclasses.replace(ASKED, row="tanh", budget="smoke"))
    assert [entry.name for entry in chosen.entries if entry.kind == "ours"] == ["ours with tanh sdu, 32"]


def test_a_benchmark_leaves_out_what_ran_out_of_memory(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def peak(entry: Entry, threads: int) -> int:
        raise BrokenProcessPool if entry.kind == "ours" else torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(measuring, "peak_memory", peak)
    (comparison,) = benchmark.contenders(load_table("highway_t3"), dataclasses.replace(ASKED, budget="smoke"))
    ((rows, remarks),) = measuring.measure([comparison.entries], rounds=1, threads=1)
    assert rows == [] and len(remarks) == len(comparison.entries)
    for name in ("torch.nn.TransformerEncoder, 32", "ours with tanh sdu, 32"):
        said = f"{name} is left out: it ran out of memory or was killed; --set dataset.train.lanes=8 halves"
        assert any(remark.startswith(said) for remark in remarks)


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
