"""make gpu-check, tried with the CPU as its device: checks pass or fail, and none stops the others."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from highway.bench import agreement, device_checks, gpu_check
from highway.bench.agreement import BATCHES, BOUNDS, Trace, rounded, trace, without_dropout
from highway.bench.checklist import Failed, Setting, run_all
from highway.bench.device_checks import rows_agree, rows_of
from highway.blocks.kernels import Captured, Given

TWO_ROWS = (("highway_t3",), ("baseline", "tanh"))


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setting:
    """Return the check of two rows, each with two training steps."""
    monkeypatch.setattr(device_checks, "trace", partial(trace, steps=2))
    return Setting("cpu", tmp_path, *TWO_ROWS, budget="smoke")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HIGHWAY_OUTPUTS", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["gpu_check"])
    gpu_check.main()
    assert capsys.readouterr() == ("There is no CUDA device here, so nothing was tried: 0 checks run.\n", "")
    assert not list(tmp_path.iterdir())


def test_a_wrong_device_is_found(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check finds a bias that is wrong on the device and right on the reference."""
    plain, calls = agreement.build.task, []

    def off_by_a_thousandth(described: object) -> object:
        calls.append(described)
        task = plain(described)
        if BATCHES < len(calls) <= 2 * BATCHES:  # the first trace after the reference
            with torch.no_grad():
                task.model.output_bias += 1e-2 * torch.arange(len(task.model.output_bias))
        return task

    monkeypatch.setattr(agreement.build, "task", off_by_a_thousandth)
    with pytest.raises(Failed, match="1 of these are out of bounds: highway_t3 baseline in 32") as failure:
        rows_agree(replace(setting, rows=("baseline",)))
    assert any("| **" in line for line in failure.value.lines)


@pytest.mark.parametrize(("jumps", "apart"), [(0, 0.0), (1, 0.0), (2, 0.5)])
def test_a_gradient_that_jumps_in_one_batch_does_not_count(jumps: int, apart: float) -> None:
    reference = Trace([1.0], [torch.tensor([2.0])] * BATCHES)
    jumped = Trace([1.0], [torch.tensor([3.0])] * jumps + [torch.tensor([2.0])] * (BATCHES - jumps))
    assert jumped.apart(reference).gradient == apart
    nan = Trace([1.0], [torch.tensor([math.nan])] + [torch.tensor([2.0])] * (BATCHES - 1))
    assert not nan.apart(reference).within(BOUNDS["bf16"]), "what is no number always counts"


def test_a_wrong_gradient_is_found_though_the_loss_is_right(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    ((_, described),) = rows_of(replace(setting, rows=("baseline",)), "smoke")
    described = without_dropout(described)
    reference = trace(described, "cpu", "32", steps=1)
    plain = agreement.build.task

    def with_a_wrong_gradient(described: object) -> object:
        task = plain(described)
        next(iter(task.weights)).register_hook(lambda gradient: 1.01 * gradient)
        return task

    monkeypatch.setattr(agreement.build, "task", with_a_wrong_gradient)
    apart = trace(described, "cpu", "32", steps=1).apart(reference)
    assert (apart.first_loss, apart.within(BOUNDS["32"])) == (0.0, False)


def passes(setting: Setting) -> list[str]:
    return ["a line"]


def fails(setting: Setting) -> list[str]:
    raise Failed("the numbers differ", ["by 3"])


def breaks(setting: Setting) -> list[str]:
    raise ValueError("unexpected")


def test_one_failing_check_stops_no_other(setting: Setting, tmp_path: Path) -> None:
    messages: list[str] = []
    checks = {"fails": fails, "breaks": breaks, "passes": passes}
    report = tmp_path / "report.md"
    results = run_all(checks, setting, report, ["# header"], messages.append, apart=False)
    assert [result.passed for result in results] == [False, False, True]
    assert "FAILED: the numbers differ" in messages[0] and messages[2].endswith("passed")
    text = report.read_text()
    assert text.startswith("# header\n") and "| fails | **failed**: the numbers differ |" in text
    assert "by 3" in text and "ValueError: unexpected" in text and "a line" in text


@pytest.mark.slow
def test_rows_agree_with_themselves_and_rounding_shows(setting: Setting) -> None:
    (row,) = [line for line in rows_agree(replace(setting, rows=("tanh",))) if line.startswith("| highway_t3")]
    exact, tf32, bf16 = row.split(" | ")[1:]
    assert exact == "0.0e+00 0.0e+00 0.0e+00"
    assert 0 < float(tf32.split()[1]) < float(bf16.split()[1])


def test_rounding_to_tf32() -> None:
    """Rounding keeps eleven significant bits: 1 + 2^-10 stays, 1 + 2^-12 does not."""
    values = torch.tensor([1 + 2.0**-10, 1 + 2.0**-12, -3.0])
    assert rounded(values).tolist() == [1 + 2.0**-10, 1.0, -3.0]


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
