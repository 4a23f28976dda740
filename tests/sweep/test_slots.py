"""hydra/launcher=local: which devices a run gets, tested without a GPU."""

import os
from pathlib import Path
from typing import Any

import pytest

from highway.config.compose import experiment
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.sweep import local, sharing
from highway.sweep.local import LocalLauncher, LocalSettings, Slots, slots_for, visible_gpus
from highway.sweep.planned_run import Planned
from highway.tables.reading import load_table
from tests.support.sweeps import planned_run


def planned(accelerator: str, *tables: str, devices: int = 1) -> list[Planned]:
    """Plan the first row at `paper` of these tables, by default of highway_t3."""
    loaded = [load_table(name) for name in tables or ("highway_t3",)]
    overrides = [table.overrides(table.rows[0], "paper", 1) for table in loaded]
    described = [experiment([*each, "dataset.source=sample"]) for each in overrides]
    settings = {"accelerator": accelerator, "devices": devices}
    changed = [each.model_copy(update={"trainer": each.trainer.model_copy(update=settings)}) for each in described]
    return [Planned("run", (), RunDirectory.of(each), each) for each in changed]


def test_each_gpu_takes_its_share_the_emptiest_first() -> None:
    slots = Slots(["0", "1"] * 2)
    assert [slots.take(1) for _ in range(5)] == [["0"], ["1"], ["0"], ["1"], None]
    slots.give_back(["1"])
    assert slots.take(2) is None  # two free slots, but on one GPU
    slots.give_back(["0"])
    assert slots.take(2) == ["0", "1"]


def test_gpus_that_are_visible(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,GPU-5af")
    assert visible_gpus() == ["2", "GPU-5af"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert visible_gpus() == []
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert visible_gpus() == []
    command(tmp_path / "nvidia-smi", "printf '0\\n1\\n'")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    assert visible_gpus() == ["0", "1"]


def test_slots_of_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highway.sweep.local.cores", lambda: 8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    slots = slots_for(planned("auto"), devices=1, in_sweep=9, settings=LocalSettings(per_gpu=2))
    assert (slots.count, slots.on_gpus) == (6, True)
    slots = slots_for(planned("auto"), devices=1, in_sweep=9, settings=LocalSettings(slots=2, per_gpu=1))
    assert slots.take(2) == ["0", "1"]
    slots = slots_for(planned("cpu"), devices=1, in_sweep=9, settings=LocalSettings(per_gpu=2))
    assert (slots.count, slots.on_gpus) == (4, False)
    with pytest.raises(Refused, match=r"trainer\.devices=4 needs 4 GPUs; this sweep may use 3"):
        slots_for(planned("auto"), devices=4, in_sweep=1, settings=LocalSettings())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert slots_for(planned("auto"), devices=1, in_sweep=3, settings=LocalSettings()).count == 3
    with pytest.raises(Refused, match="no GPU is visible"):
        slots_for(planned("gpu"), devices=1, in_sweep=3, settings=LocalSettings())


def test_a_run_sees_only_the_gpus_of_its_slots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    surroundings: list[dict[str, str]] = []

    def start(command: Any, log: Path, environment: dict[str, str]) -> None:
        surroundings.append(environment)

    monkeypatch.setattr(local, "start_process", start)
    monkeypatch.setattr(local, "cores", lambda: 8)
    monkeypatch.setattr(LocalLauncher, "command", lambda *_: [])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    runs = [planned_run(tmp_path / str(number), f"run {number}", accelerator="auto") for number in range(5)]
    launcher = LocalLauncher(per_gpu=2)
    assert launcher.prepare(runs, 5) == 4
    assert [launcher.take(run) for run in runs] == [True, True, True, True, False]
    list(launcher.start(runs[:4]))
    assert [environment["CUDA_VISIBLE_DEVICES"] for environment in surroundings] == ["4", "5", "4", "5"]
    assert surroundings[0]["HIGHWAY_SLOTS"] == "4" and surroundings[0]["OMP_NUM_THREADS"] == "2"
    assert launcher.prepare(runs[:1], 1) == 1 and launcher.take(runs[0])
    list(launcher.start(runs[:1]))
    assert surroundings[-1]["HIGHWAY_SLOTS"] == "1", "nothing runs beside a run that is alone in its sweep"


@pytest.mark.parametrize(
    ("tables", "in_sweep", "memory", "gpus", "together"),
    [
        (("highway_t3",), 99, 140_000, 1, 16),  # a core for each
        (("highway_t3",), 99, 140_000, 4, 4),
        (("highway_t3",), 5, 140_000, 2, 3),  # as many as there are
        (("highway_t3",), 99, 24_564, 1, 5),  # and fit
        (("highway_t3", "hsg_t1"), 99, 140_000, 1, 6),  # the largest decides
        (("highway_t6",), 99, 140_000, 1, 1),  # it keeps a GPU busy by itself
    ],
)
def test_small_runs_share_a_gpu(
    tables: tuple[str, ...], in_sweep: int, memory: int, gpus: int, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "cores", lambda: 16)
    monkeypatch.setattr(sharing, "_memory", lambda _: memory)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus))))
    slots = slots_for(planned("auto", *tables), 1, in_sweep, LocalSettings(per_gpu="auto"))
    assert slots.count == together * gpus
    assert sharing.runs_on_a_gpu(planned("auto", devices=2), in_sweep, ["0"] * gpus) == 1


def test_the_memory_of_the_smallest_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sharing._memory(["0"]) == sharing.ROOM  # room for one run
    command(tmp_path / "nvidia-smi", "printf '24564\\n8192\\n'")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    assert sharing._memory(["0", "1"]) == 8192


@pytest.mark.parametrize("running", [True, False])
def test_mps_runs_while_runs_share_a_gpu(running: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A sweep starts and ends an MPS of its own, and leaves one alone that runs already; a stand-in is its program."""
    told = tmp_path / "told"
    script = f'read typed; echo $1 $typed $CUDA_VISIBLE_DEVICES >> {told}; [ "$typed" != get_server_list ]'
    command(tmp_path / sharing.CONTROL, script + (" || true" if running else ""))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    launcher = LocalLauncher(per_gpu=2)
    launcher.prepare(planned("auto"), 1)
    with launcher.surroundings():
        during = told.read_text().split()
        folder = launcher.of_mps.get("CUDA_MPS_PIPE_DIRECTORY")
        assert running or Path(folder or "").is_dir()
    assert during == ["get_server_list"] + ([] if running else ["-d"])
    assert told.read_text().split()[len(during) :] == ([] if running else ["quit"])
    assert running == (folder is None) and not Path(folder or "none").exists()
    alone = LocalLauncher(per_gpu=1)
    alone.prepare(planned("auto"), 1)
    told.unlink()
    with alone.surroundings():
        assert not told.exists()


def command(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
