"""The memory that a training step needs and that the machine has free, and the warning if it is too little."""

import dataclasses
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from highway.config.compose import experiment as composed
from highway.config.experiment import Experiment
from highway.run import machine, memory
from highway.run.trial import Entry, in_own_process

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("heard")
GROUPS = {"": "sys/fs/cgroup", "memory": "sys/fs/cgroup/memory"}
FILES = {"": ("memory.max", "memory.current"), "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes")}


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIGHWAY_CAUTIONS")


def system(root: Path, controllers: str, limits: dict[str, tuple[str, int]], inactive: int = 0) -> Path:
    """Create the files of a system with 8 GiB available and a process in group /job/step.

    `limits` maps groups to their limits and what they use, both in bytes.
    """
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 1 kB\nMemFree: 5 kB\nMemAvailable:    {8 << 20} kB\n")
    (root / "proc/self/cgroup").write_text(f"5:cpu:/elsewhere\n4:{controllers}:/job/step\n")
    (root / GROUPS[controllers] / "job/step").mkdir(parents=True)
    for group, (limit, used) in limits.items():
        folder = root / GROUPS[controllers] / group
        name = "inactive_file" if controllers == "" else "total_inactive_file"
        for file, text in zip(FILES[controllers], (limit, str(used)), strict=True):
            (folder / file).write_text(text + "\n")
        (folder / "memory.stat").write_text(f"anon 5\n{name} {inactive}\n")
    return root


@pytest.mark.parametrize("controllers", ["", "memory"], ids=["version 2", "version 1"])
def test_free_memory_is_below_every_limit(tmp_path: Path, controllers: str) -> None:
    none = "max" if controllers == "" else "9223372036854771712"
    assert memory.free_bytes("cpu", system(tmp_path / "a", controllers, {})) == 8 << 30
    limits = {"job": (str(3 << 30), 1 << 30), "job/step": (none, 5)}
    assert memory.free_bytes("cpu", system(tmp_path / "b", controllers, limits)) == 2 << 30
    # files that are only cached make room when it is needed
    assert memory.free_bytes("cpu", system(tmp_path / "c", controllers, limits, 1 << 20)) == (2 << 30) + (1 << 20)
    full = {"job": (none, 5), "job/step": (str(1 << 30), 2 << 30)}
    assert memory.free_bytes("cpu", system(tmp_path / "d", controllers, full)) == 0


def test_free_memory_without_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Free memory is the pages that the system calls free. If nothing is known, nothing is reported."""
    pages = {"SC_AVPHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    assert memory.free_bytes("cpu", tmp_path) == 4096_000

    def unknown(name: str) -> int:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "sysconf", unknown)
    assert memory.free_bytes("cpu", tmp_path) is None
    monkeypatch.setattr(memory, "free_bytes", lambda device: None)
    monkeypatch.setattr(memory, "needs", lambda entry: pytest.fail("counted for nothing"))
    assert memory.check(composed(["budget=smoke"]))


def test_this_machine_has_free_memory() -> None:
    free = memory.free_bytes("cpu")
    assert free is None or 1 << 20 < free < 1 << 50


def steps(entry: Entry) -> int:
    """Return the growth of a process's peak memory over two steps, in bytes."""
    contender, batch = entry.build(), entry.batch()
    before = machine.peak_memory_bytes()
    contender.step(batch)
    contender.step(batch)
    return machine.peak_memory_bytes() - before


SHAPES = {
    "transformer": ("model=transformer", "dataset=ptb_char", "model.width=128", "model.layers=2"),
    "LocalRNN": ("model=r_transformer", "dataset=ptb_char", "model.width=64", "model.layers=1"),
}


@pytest.mark.slow
@pytest.mark.parametrize("overrides", SHAPES.values(), ids=SHAPES)
def test_what_is_counted_is_what_a_process_takes(
    experiment: Callable[..., Experiment], overrides: tuple[str, ...]
) -> None:
    """The count is within a third, plus some libraries; it includes arrays of custom functions that no hook sees."""
    entry = Entry("32", experiment(*overrides), "cpu")
    counted = memory.needs(entry).total()
    assert counted > 200 * memory.MIB
    assert counted / 1.5 < in_own_process(steps, entry) < 1.5 * counted + 100 * memory.MIB


def test_parts_of_a_batch_share_what_a_step_takes(experiment: Callable[..., Experiment]) -> None:
    described = experiment("model=transformer", "dataset=ptb_char", "model.layers=1", "optimizer=adam_cosine")
    needed = memory.needs(Entry("32", described, "cpu"))
    half = dataclasses.replace(described.dataset.train, lanes=described.dataset.train.lanes // 2)
    fewer = dataclasses.replace(described, dataset=dataclasses.replace(described.dataset, train=half))
    assert needed.rows == described.dataset.train.lanes and needed.kept == 2 * needed.weights
    assert needed.total(2) == pytest.approx(memory.needs(Entry("32", fewer, "cpu")).total(), rel=0.05)
    assert memory.needs(Entry("64", described, "cpu")).total() == pytest.approx(2 * needed.total())


@pytest.mark.parametrize(("width", "above"), [(64, 1.1), (830, 1.3)])
def test_a_few_steps_of_a_recurrence_count_as_all(width: int, above: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate from few steps is above that from all where the weights are large.

    There the gradients of the weights and the arrays of all steps are not alive together.
    """
    overrides = ["model=rhn", "dataset=ptb_word_rhn", "gate=hsg", "model.depth=2", f"model.width={width}"]
    entry = Entry("32", composed(overrides), "cpu")
    few = memory.needs(entry).total()
    monkeypatch.setattr(memory, "STEPS", 1000)
    assert 0.95 < few / memory.needs(entry).total() < above


@pytest.mark.parametrize(
    ("free", "said"),
    [
        (1000, ""),
        (800, "and 800 MiB are free here: type trainer.accumulate=2 to take each batch in 2 parts (about 550 MiB)."),
        (325, "type trainer.accumulate=4 to take each batch in 4 parts (about 325 MiB)."),
        (90, "free some memory, or use a larger machine (trainer.accumulate=8 takes the batch row by row and still"),
    ],
)
def test_a_run_that_does_not_fit_is_told_what_to_type(free: int, said: str) -> None:
    needed = memory.Needs(weights=50 * memory.MIB, kept=0, step=950 * memory.MIB, rows=8)
    described = composed(["budget=smoke"])
    sentence = memory.shortage(needed, described, "cpu", free * memory.MIB)
    assert sentence.startswith("A training step needs about 1,000 MiB of memory, and") if said else not sentence
    assert said in sentence
    described.trainer.accumulate = 2
    assert bool(memory.shortage(needed, described, "cpu", free * memory.MIB)) is (free < 550)
    described.trainer.precision, described.trainer.accumulate = "bf16", 1
    assert not said or "MiB of memory at the most" in memory.shortage(needed, described, "cpu", free * memory.MIB)


def test_two_processes_of_one_machine_both_need_their_weights() -> None:
    needed = memory.Needs(weights=50, kept=100, step=950, rows=8)
    described = composed(["budget=smoke", "trainer.devices=2", "trainer.accelerator=cpu"])
    assert memory.taken(needed, described, "cpu") == 2 * (200 + 450)
    assert memory.taken(needed, described, "cuda") == 200 + 450


def test_a_run_says_it_before_its_first_step(
    tiny: Callable[..., Experiment], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A run warns before its first step and goes on. If memory is short, freed memory returns to the system."""
    kept: list[bool] = []
    monkeypatch.setattr(machine, "keep_freed_memory", lambda: kept.append(True))
    described = tiny()
    needed = memory.needs(Entry("32", described, "cpu")).total()
    with caplog.at_level(logging.WARNING, "highway"):
        for share, ample in ((2.1, True), (1.9, False), (0.9, False)):
            assert not caplog.records
            monkeypatch.setattr(memory, "free_bytes", lambda device, share=share: int(share * needed))
            assert memory.check(described) is ample
    assert "A training step needs about" in caplog.text and "type trainer.accumulate=2" in caplog.text
    machine.prepare(1, ample_memory=False)
    assert not kept
    machine.prepare(1)
    assert kept


def test_rows_of_a_timing_are_held_together(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    entries = [Entry("32", composed(["budget=smoke"]), "cpu")] * 3
    monkeypatch.setattr(memory, "needs", lambda entry: memory.Needs(100, 0, 1000, 8))  # each: held 200, a step 900
    for free, ample, warned in ((6600, True, False), (6500, False, False), (1499, False, True)):
        monkeypatch.setattr(memory, "free_bytes", lambda device, free=free: free)
        with caplog.at_level(logging.WARNING, "highway"):
            assert memory.check_together(entries) is ample
        assert ("The rows of this timing need about" in caplog.text) is warned


def test_the_peak_is_of_this_program_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The peak excludes the program that started this one. getrusage includes it, so it serves only without /proc."""
    monkeypatch.setattr(machine.resource, "getrusage", lambda _: SimpleNamespace(ru_maxrss=1 << 40))
    if Path("/proc/self/status").exists():
        assert 50 * memory.MIB < machine.peak_memory_bytes() < 1 << 40
    monkeypatch.setattr(machine, "Path", lambda _: tmp_path / "nothing")
    assert machine.peak_memory_bytes() >= 1 << 40


@pytest.mark.slow
def test_a_child_does_not_inherit_the_peak_of_its_parent() -> None:
    """The peak of a child covers Python, torch and two steps of a small model, and nothing of its parent."""
    code = (
        "block = bytearray(1200 << 20)\n"
        "block[::4096] = b'1' * len(block[::4096])\n"
        "import subprocess, sys\n"
        "peak = 'from highway.run.machine import peak_memory_bytes; print(peak_memory_bytes())'\n"
        "print(subprocess.check_output([sys.executable, '-c', peak], text=True))\n"
    )
    peak = int(subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT))
    assert 100 * memory.MIB < peak < 900 * memory.MIB


def test_a_model_that_cannot_be_counted_trains_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own model may read values, which tensors without storage do not have; it trains nevertheless."""

    def read_a_value(_: Experiment) -> None:
        torch.zeros((), device="meta").item()

    monkeypatch.setattr(memory, "of_a_run", read_a_value)
    assert memory.check(composed(["budget=smoke", "trainer.accelerator=cpu"]))
