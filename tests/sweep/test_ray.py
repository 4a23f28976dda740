"""hydra/launcher=ray: what it refuses, and lost tasks of a pretended Ray; test_clusters.py has a real one."""

import sys
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.sweep.launcher import Planned
from highway.sweep.ray import RayLauncher, Task


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)


def test_without_ray_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Refused, match=r"which is not installed: pip install -e '\.\[ray\]'\.$"):
        RayLauncher()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"address": 5}, "address=5 must be a text or null"),
        ({"cores": 0}, "cores=0 is out of range; it must be at least 1"),
        ({"num_cpus": -1}, "num_cpus=-1 is out of range; it must be at least 1"),
        ({"num_cpus": True}, "num_cpus=true must be a whole number"),
        ({"num_cpus": 0.5}, "num_cpus=0.5 must be a whole number"),
        ({"per_gpu": "many"}, "per_gpu=many must be a whole number"),
        ({"retries": -1}, "retries=-1 is out of range; it must be at least 0"),
        ({"address": "auto", "cores": 2}, "remove it when hydra.launcher.address is set"),
    ],
)
def test_wrong_values(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        RayLauncher(**values)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("per_gpu", "accelerator", "devices", "on_gpus", "needs"),
    [
        (1, "auto", 1, True, {"CPU": 2, "GPU": 1}),
        (3, "gpu", 1, True, {"CPU": 2, "GPU": 0.3333}),  # three of these fit, as Ray adds them up
        (3, "gpu", 4, True, {"CPU": 8, "GPU": 4}),
        (1, "cpu", 2, True, {"CPU": 4, "GPU": 0}),
        (1, "auto", 2, False, {"CPU": 4, "GPU": 0}),
    ],
)
def test_what_a_cell_needs(
    per_gpu: int, accelerator: str, devices: int, on_gpus: bool, needs: dict[str, float]
) -> None:
    launcher = RayLauncher(num_cpus=2, per_gpu=per_gpu)
    launcher.on_gpus = on_gpus
    assert launcher.needs(Planned("cell", (), RunDirectory(Path("cell")), accelerator, devices)) == needs


class Lost(Exception):
    pass


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Install a fake Ray; return the list of its tasks' results, in turn: exit codes, or the errors in their place."""
    ends: list[Any] = []

    def get(number: int) -> int:
        if isinstance(ends[number], Exception):
            raise ends[number]
        code: int = ends[number]
        return code

    fake: Any = ModuleType("ray")
    fake.wait, fake.get = lambda tasks, timeout: (tasks, []), get
    fake.exceptions = ModuleType("ray.exceptions")
    fake.exceptions.RayError = Lost
    fake.exceptions.RayTaskError = type("RayTaskError", (Lost,), {"cause": "no such file"})
    fake.exceptions.TaskCancelledError = type("TaskCancelledError", (Lost,), {})
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setitem(sys.modules, "ray.exceptions", fake.exceptions)
    return ends


def task(folder: Path, retries: int = 3) -> Task:
    return Task(Planned("cell", (), RunDirectory(folder), "cpu", 1), count().__next__, retries)


def codes(task: Task) -> list[int | None]:
    """Poll a task until it has ended, and return all answers."""
    seen = [task.poll()]
    while seen[-1] is None:
        seen.append(task.poll())
    return seen


def test_a_lost_task_is_submitted_again(outcomes: list[Any], tmp_path: Path) -> None:
    outcomes += [Lost(), Lost(), 0]
    assert codes(task(tmp_path)) == [None, None, None, None, 0]


def test_the_cell_of_a_lost_task_is_left_to_its_process_until_that_has_saved(
    outcomes: list[Any], tmp_path: Path
) -> None:
    outcomes += [Lost(), 0]
    lost = task(tmp_path)
    assert lost.poll() is None
    with lost.planned.directory.leased():
        assert [lost.poll(), lost.poll(), lost.reference] == [None, None, None]
    assert codes(lost) == [None, 0]


def test_who_finds_the_lost_process_still_at_it_tries_again(outcomes: list[Any], tmp_path: Path) -> None:
    outcomes += [Lost(), 2, 0]
    assert codes(task(tmp_path))[-1] == 0
    outcomes[:] = [2]
    assert codes(task(tmp_path)) == [2], "nothing was lost: the command is wrong, or another sweep is first"


def test_a_task_that_is_lost_too_often_fails(outcomes: list[Any], tmp_path: Path) -> None:
    outcomes += [Lost()] * 3
    assert codes(task(tmp_path, retries=2))[-1] == 1
    assert (tmp_path / "log.txt").read_text() == "Ray lost the run 3 times; the last error was: Lost\n"


def test_what_a_worker_cannot_start_is_said(outcomes: list[Any], tmp_path: Path) -> None:
    outcomes += [sys.modules["ray.exceptions"].RayTaskError()]
    assert codes(task(tmp_path)) == [1]
    assert (tmp_path / "log.txt").read_text() == "the Ray worker could not start the run: no such file\n"
