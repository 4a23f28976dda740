"""hydra/launcher=ray: what it refuses; and (make test-ray) a real cluster on this machine, parts of it killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from highway.errors import Refused
from highway.files.system import born
from highway.files.writing import read_json
from highway.ledger.directory import RunDirectory
from highway.ledger.lease import Lease
from highway.sweep.launch import Planned
from highway.sweep.ray import RayLauncher, Task
from highway.testing.runs import curve, same_weights
from tests.support import phases
from tests.support.commands import TRAIN
from tests.support.sweeps import results, sweep
from tests.support.tuned import SWEEP, chosen_alike
from tests.support.tuned import tuned as tuned
from tests.support.waiting import wait_for

TABLE = (
    "table=highway_t1",
    "budget=smoke",
    "rows=baseline,tanh",
    "trainer.threads=1",
    "trainer.checkpoint_seconds=0.5",
)
LONG = (*TABLE, "trainer.max_steps=60", "trainer.validate_every=30", "trainer.evaluation_batch=64")
FOREVER = (*TABLE, "trainer.max_steps=10000", "trainer.validate_every=10000", "seeds=1,2")
ON_RAY = "hydra/launcher=ray"
SMALL = {"object_store_memory": 100 * 2**20, "include_dashboard": False}


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
        ({"address": 5}, "address=5 must be auto, host:port"),
        ({"cores": 0}, "cores=0 is not a whole number from 1 upwards"),
        ({"num_cpus": -1}, "num_cpus=-1 is not a whole number from 1 upwards"),
        ({"num_cpus": True}, "num_cpus=true is not a whole number"),
        ({"num_cpus": 0.5}, "num_cpus=0.5 is not a whole number"),
        ({"per_gpu": "many"}, "per_gpu=many is not a whole number"),
        ({"retries": -1}, "retries=-1 is not a whole number from 0 upwards"),
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


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Start a head, to which sweeps connect, and two nodes of one core each.

    They ignore SIGINT, as processes started with a shell's & do.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **SMALL})
    for _ in range(2):
        started.add_node(num_cpus=1, **SMALL)
    signal.signal(signal.SIGINT, before)
    yield started
    started.shutdown()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert sweep(folder, *LONG).returncode == 0
    return folder


def started(folder: Path, *overrides: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "HIGHWAY_OUTPUTS": str(folder)}
    command = [sys.executable, str(TRAIN), "-m", *overrides, ON_RAY]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)


def at(cluster: Any) -> str:
    return f"hydra.launcher.address={cluster.address}"


def saved(folder: Path, count: int) -> list[RunDirectory]:
    """Wait until `count` runs of a sweep have a checkpoint, and return them."""
    wait_for(lambda: len(begun(folder)) == count, seconds=180)
    return begun(folder)


def begun(folder: Path) -> list[RunDirectory]:
    return [directory for directory in map(RunDirectory, sorted(folder.glob("cells/*/*"))) if directory.checkpoints]


def holder(directory: RunDirectory) -> int:
    lease = Lease.latest(directory.leases, directory.id)
    assert lease is not None and lease.alive
    pid: int = lease.content["pid"]
    return pid


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def as_if_undisturbed(folder: Path, undisturbed: Path) -> bool:
    paths = [path.parent.relative_to(undisturbed) for path in results(undisturbed)]
    pairs = [(RunDirectory(undisturbed / path), RunDirectory(folder / path)) for path in paths]
    same = all(same_weights(first.last, second.last) and curve(first) == curve(second) for first, second in pairs)
    return same and len(pairs) == len(results(folder)) == 2


@pytest.mark.ray
def test_a_lost_worker_and_a_lost_node(cluster: Any, undisturbed: Path, tmp_path: Path) -> None:
    """One run loses its worker, one its whole node: both resume from their checkpoints on the remaining nodes."""
    process = started(tmp_path, *LONG, at(cluster))
    first, second = saved(tmp_path, 2)
    workers = [parent(holder(directory)) for directory in (first, second)]
    raylets = [parent(worker) for worker in workers]
    assert raylets[0] != raylets[1], "a node each"
    os.kill(workers[0], signal.SIGKILL)
    os.kill(raylets[1], signal.SIGKILL)  # its worker lives on without it
    lost = next(node for node in cluster.worker_nodes if _raylet(node) == raylets[1])
    _, errors = process.communicate(timeout=400)
    assert process.returncode == 0, errors
    ours = {"2", "queued", "finished", "highway_t1"}
    assert {line.split()[0] for line in errors.splitlines()} <= ours, "no word of Ray's own"
    assert [held_by(directory) for directory in (first, second)] == [2, 2], "once before, once after"
    assert as_if_undisturbed(tmp_path, undisturbed)
    cluster.remove_node(lost)
    cluster.add_node(num_cpus=1, **SMALL)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the outputs of the runs whose nodes are lost below, undisturbed."""
    folder = tmp_path_factory.mktemp("calm")
    assert sweep(folder, *phases.RUNS).returncode == 0
    return folder


@pytest.mark.ray
@pytest.mark.usefixtures("tuned")
def test_settings_are_chosen_on_a_cluster(cluster: Any, tmp_path: Path) -> None:
    """Trials run and are compared on Ray as they are in this machine's slots."""
    for folder, *through in (("here", "hydra.launcher.slots=2"), ("there", ON_RAY, at(cluster))):
        environment = {**os.environ, "HIGHWAY_OUTPUTS": str(tmp_path / folder)}
        subprocess.run([sys.executable, str(TRAIN), "-m", *SWEEP, *through], env=environment, check=True)
    assert chosen_alike(tmp_path / "there", tmp_path / "here")


@pytest.mark.ray
@phases.WITH_FAULTS
@pytest.mark.parametrize("phase", phases.PHASES)
def test_a_node_that_is_lost_in_each_phase(cluster: Any, calm: Path, tmp_path: Path, phase: str) -> None:
    """The node goes with its worker and its run; the run ends on another node as an undisturbed one does."""
    process = started(tmp_path, *phases.RUNS, "trainer.checkpoint_seconds=0.2", at(cluster))
    pid = phases.caught(tmp_path, phase, process)
    worker = parent(pid)
    raylet = parent(worker)
    lost = next(node for node in cluster.worker_nodes if _raylet(node) == raylet)
    for victim in (raylet, worker, pid):
        os.kill(victim, signal.SIGKILL)
    cluster.remove_node(lost)
    cluster.add_node(num_cpus=1, **SMALL)
    _, errors = process.communicate(timeout=phases.PATIENCE)
    assert process.returncode == 0, errors
    assert phases.as_if_undisturbed(tmp_path, calm)


def held_by(directory: RunDirectory) -> int:
    """Return the number of processes that have held the run, one after the other."""
    (path,) = directory.leases.glob("*.json")
    return int(path.stem)


def _raylet(node: Any) -> int:
    from ray._private.ray_constants import PROCESS_TYPE_RAYLET

    pid: int = node.all_processes[PROCESS_TYPE_RAYLET][0].process.pid
    return pid


@pytest.mark.ray
def test_ctrl_c_saves_what_runs_and_cancels_what_is_queued(cluster: Any, tmp_path: Path) -> None:
    process = started(tmp_path, *FOREVER, at(cluster))
    directories = saved(tmp_path, 2)
    pids = [holder(directory) for directory in directories]
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Type the same command again to resume" in errors
    assert [directory.status for directory in directories] == ["interrupted", "interrupted"]
    assert [read_json(path)["status"] for path in results(tmp_path)] == ["interrupted", "interrupted"]
    assert [born(pid) for pid in pids] == [None, None]


@pytest.mark.ray
def test_no_cell_outlives_a_sweep_that_is_killed(cluster: Any, tmp_path: Path) -> None:
    process = started(tmp_path, *FOREVER, at(cluster))
    pids = [holder(directory) for directory in saved(tmp_path, 2)]
    process.kill()
    process.communicate()
    wait_for(lambda: [born(pid) for pid in pids] == [None, None], seconds=30)
    time.sleep(3)
    assert len(begun(tmp_path)) == 2, "what was queued never started"


@pytest.mark.ray
def test_a_cluster_of_this_machine(undisturbed: Path, tmp_path: Path) -> None:
    """SIGTERM stops a sweep and leaves no process of Ray's behind; a second start finishes the sweep."""
    process = started(tmp_path, *LONG, "hydra.launcher.cores=2")
    saved(tmp_path, 2)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 130
    wait_for(lambda: not _session(process.pid), seconds=30)
    assert sweep(tmp_path, *LONG, ON_RAY, "hydra.launcher.cores=2").returncode == 0
    assert as_if_undisturbed(tmp_path, undisturbed)


def _session(leader: int) -> list[int]:
    """Return the ids of the living processes of a session."""
    stats = [(path.name, path.joinpath("stat")) for path in Path("/proc").glob("[0-9]*")]
    fields = {int(pid): stat.read_text().rpartition(")")[2].split() for pid, stat in stats if stat.exists()}
    return [pid for pid, values in fields.items() if values[3] == str(leader) and values[0] not in "ZX"]


@pytest.mark.ray
def test_where_no_cluster_answers(tmp_path: Path) -> None:
    began = time.monotonic()
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1", "nowhere"):
        done = sweep(tmp_path, *LONG, ON_RAY, f"hydra.launcher.address={address}")
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].startswith(f"error: hydra.launcher.address={address}: no Ray cluster")
        assert len(done.stderr.splitlines()) == 2, done.stderr
    assert time.monotonic() - began < 90


@pytest.mark.ray
def test_a_cell_that_fits_nowhere(cluster: Any, tmp_path: Path) -> None:
    for overrides, sentence in (
        (["hydra.launcher.num_cpus=2"], "needs 2 CPU, but no node of the Ray cluster has that much."),
        (["trainer.accelerator=gpu"], "but the Ray cluster has no GPU"),
    ):
        done = sweep(tmp_path, *LONG, ON_RAY, at(cluster), *overrides)
        assert done.returncode == 2 and sentence in done.stderr.splitlines()[-1]
