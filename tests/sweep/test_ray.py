"""hydra/launcher=ray: what it refuses, and how tasks of a pretended Ray end; test_clusters.py has a real one."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.sweep.ray import RayLauncher, Task
from tests.support.sweeps import planned_run


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
    assert launcher.needs(planned_run(Path("seed1"), accelerator=accelerator, devices=devices)) == needs


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return a function that polls a task of a fake Ray, which ends as given; it returns the code and the run's log."""
    exceptions: Any = ModuleType("ray.exceptions")
    exceptions.RayError = type("RayError", (Exception,), {})
    exceptions.RayTaskError = type("RayTaskError", (exceptions.RayError,), {"cause": "no such file"})
    exceptions.TaskCancelledError = type("TaskCancelledError", (exceptions.RayError,), {})

    def get(end: Any) -> Any:
        if isinstance(end, str):
            raise getattr(exceptions, end)
        return end

    fake: Any = ModuleType("ray")
    fake.wait, fake.get, fake.exceptions = lambda tasks, timeout: (tasks, []), get, exceptions
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setitem(sys.modules, "ray.exceptions", exceptions)

    def poll(end: Any) -> tuple[int | None, str]:
        directory = RunDirectory(tmp_path / "seed1")
        code = Task(planned_run(directory.path), end).poll()
        return code, directory.log.read_text() if directory.log.exists() else ""

    return poll


def test_how_a_task_ends(ended: Any) -> None:
    assert ended(0) == (0, "") and ended(2) == (2, "") and ended("TaskCancelledError") == (130, "")


def test_a_task_that_ray_gives_up_says_why_in_the_log_of_the_run(ended: Any) -> None:
    code, log = ended("RayError")
    assert code == 1 and log == "Ray lost the run, after every retry: RayError\n"


def test_what_a_worker_cannot_start_is_said(ended: Any) -> None:
    code, log = ended("RayTaskError")
    assert code == 1 and log == "the Ray worker could not start the run: no such file\n"
