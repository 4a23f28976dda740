"""The message of a run when memory runs out, and what its record says about the machine."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from highway.config.experiment import Experiment
from highway.ledger.record import check_record
from highway.run import build, machine
from highway.testing.runs import trained

ROOT = Path(__file__).parents[2]
MIB = 2**20
Compose = Callable[..., Experiment]


@pytest.mark.parametrize(
    ("failure", "where"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore"), "the GPU"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 8 bytes"), "this machine"),
        (MemoryError(), "this machine"),
    ],
)
def test_out_of_memory_says_where_and_what_to_type(tiny: Compose, failure: Exception, where: str) -> None:
    sentence = machine.explained(failure, tiny("trainer.accumulate=2").trainer)
    assert sentence.startswith(
        f"{where} ran out of memory: type trainer.accumulate=3 to compute each batch in 3 parts, or "
        f"trainer.evaluation_batch=1 if an evaluation needed the memory ({type(failure).__name__}: "
    )
    assert "\n" not in sentence
    assert machine.explained(ValueError("another"), tiny().trainer) == "ValueError: another"


def test_a_run_that_is_out_of_memory_fails_with_that_sentence(tiny: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*_: object) -> None:
        torch.empty(1 << 60)

    monkeypatch.setattr(build, "task", too_large)
    _, result = trained(tiny())
    assert result["status"] == "failed"
    assert result["error"].startswith("this machine ran out of memory: type trainer.accumulate=2 to compute")


def test_a_record_has_the_load_average(tiny: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    loads = iter([0.123, 4.5])
    monkeypatch.setattr(machine.os, "getloadavg", lambda: (next(loads), 0.0, 0.0))
    _, result = trained(tiny("trainer.max_steps=2", "trainer.validate_every=2"))
    assert result["cost"]["load_average"] == {"start": 0.12, "end": 4.5}
    check_record(result)
    monkeypatch.delattr(machine.os, "getloadavg")
    assert machine.load_average() is None
    result["cost"]["load_average"] = {"start": None, "end": None}
    check_record(result)


def test_the_peak_is_of_this_program_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The peak excludes the program that started this one. getrusage includes it, so it serves only without /proc."""
    monkeypatch.setattr(machine.resource, "getrusage", lambda _: SimpleNamespace(ru_maxrss=1 << 40))
    if Path("/proc/self/status").exists():
        assert 50 * MIB < machine.peak_memory_bytes() < 1 << 40
    monkeypatch.setattr(machine, "Path", lambda _: tmp_path / "nothing")
    assert machine.peak_memory_bytes() >= 1 << 40
