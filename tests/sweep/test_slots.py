"""hydra/launcher=local: which devices a run gets, tested without a GPU."""

import os
from pathlib import Path
from typing import Any

import pytest

from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.sweep import local
from highway.sweep.local import LocalLauncher, LocalSettings, Slots, slots_for, visible_gpus
from highway.sweep.planned import Planned


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
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nprintf '0\\n1\\n'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    assert visible_gpus() == ["0", "1"]


def test_slots_of_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highway.sweep.local.cores", lambda: 8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    slots = slots_for({"auto"}, devices=1, to_run=9, settings=LocalSettings(per_gpu=2))
    assert (slots.count, slots.on_gpus) == (6, True)
    slots = slots_for({"auto"}, devices=1, to_run=9, settings=LocalSettings(slots=2))
    assert slots.take(2) == ["0", "1"]
    slots = slots_for({"cpu"}, devices=1, to_run=9, settings=LocalSettings(per_gpu=2))
    assert (slots.count, slots.on_gpus) == (4, False)
    with pytest.raises(Refused, match=r"trainer\.devices=4 needs 4 GPUs; this sweep may use 3"):
        slots_for({"auto"}, devices=4, to_run=1, settings=LocalSettings())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert slots_for({"auto"}, devices=1, to_run=3, settings=LocalSettings()).count == 3
    with pytest.raises(Refused, match="no GPU is visible"):
        slots_for({"gpu"}, devices=1, to_run=3, settings=LocalSettings())


def test_a_run_sees_only_the_gpus_of_its_slots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    surroundings: list[dict[str, str]] = []

    def start(command: Any, log: Path, environment: dict[str, str]) -> None:
        surroundings.append(environment)

    monkeypatch.setattr(local, "start_process", start)
    monkeypatch.setattr(local, "cores", lambda: 8)
    monkeypatch.setattr(LocalLauncher, "command", lambda *_: [])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    runs = [Planned(f"run {number}", (), RunDirectory(tmp_path / str(number)), "auto", 1) for number in range(5)]
    launcher = LocalLauncher(per_gpu=2)
    assert launcher.prepare(runs, 5) == 4
    assert [launcher.take(run) for run in runs] == [True, True, True, True, False]
    list(launcher.start(runs[:4]))
    assert [environment["CUDA_VISIBLE_DEVICES"] for environment in surroundings] == ["4", "5", "4", "5"]
    assert surroundings[0]["HIGHWAY_SLOTS"] == "4" and surroundings[0]["OMP_NUM_THREADS"] == "2"
