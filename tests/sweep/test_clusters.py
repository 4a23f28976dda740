"""Sweeps on a real Slurm (make test-slurm) and a real Ray (make test-ray): a short sweep, and one that loses a node."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from highway.ledger.directory import RunDirectory
from highway.ledger.files import read_json
from highway.ledger.lease import Lease
from highway.testing.runs import curve, same_weights
from tests.support.commands import TRAIN
from tests.support.overrides import TINY
from tests.support.sweeps import directories, results, sweep
from tests.support.waiting import wait_for

TABLE = (
    "table=highway_t1",
    "budget=smoke",
    "trainer.threads=1",
    "trainer.accelerator=cpu",
    "trainer.max_steps=150",
    "trainer.validate_every=75",
    "trainer.evaluation_batch=64",
    "trainer.checkpoint_seconds=0.5",
)
RUNS = (*TABLE, "rows=baseline,tanh")
ON_TWO = (  # uneven lanes, without dropout
    *TINY,
    "model.dropout=0",
    "model.dropout_attention=0",
    "model.dropout_feed_forward=0",
    "model.dropout_embedding=0",
    "gate=none,sdu_tanh",
    "dataset.train.lanes=7",
    "trainer.max_steps=20",
    "trainer.validate_every=10",
    "trainer.log_every=5",
    "trainer.precision=64",
)
SLURM = (
    "hydra/launcher=slurm",
    "hydra.launcher.cpus=1",
    "hydra.launcher.minutes=10",
    "hydra.launcher.setup_lines=['export MASTER_ADDR=127.0.0.1']",  # no DNS knows the machine's name
)
RAY = ("hydra/launcher=ray",)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the outputs of the runs that the tests below disturb."""
    folder = tmp_path_factory.mktemp("undisturbed")
    assert sweep(folder, *RUNS).returncode == 0
    return folder


@pytest.fixture
def started() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Return a function that starts a sweep in a session of its own; no sweep outlives its test."""
    sweeps: list[subprocess.Popen[str]] = []

    def start(folder: Path, *overrides: str) -> "subprocess.Popen[str]":
        command = [sys.executable, str(TRAIN), "-m", *overrides]
        surroundings = {**os.environ, "HIGHWAY_OUTPUTS": str(folder)}
        pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        sweeps.append(subprocess.Popen(command, env=surroundings, text=True, start_new_session=True, **pipes))
        return sweeps[-1]

    yield start
    for process in sweeps:
        if process.poll() is None:
            process.kill()
            process.communicate()
    if os.environ.get("HIGHWAY_SLURM") == "yes":  # jobs outlive their sweep
        tool("scancel", "--user", str(os.getuid()))
        wait_for(lambda: not queue())


def ended(process: "subprocess.Popen[str]", code: int = 0) -> str:
    """Wait for the end of a sweep, and return its messages."""
    _, messages = process.communicate(timeout=400)
    assert process.returncode == code, messages
    return messages


def until(process: "subprocess.Popen[str]", condition: Callable[[], bool]) -> None:
    """Wait until the condition holds; fail if the sweep ends before."""

    def met() -> bool:
        assert process.poll() is None or condition(), process.communicate()[1]
        return condition()

    wait_for(met, 180)


def holder(directory: RunDirectory) -> int | None:
    """Return the process that holds a run, or None."""
    lease = Lease.latest(directory.leases, directory.id)
    return lease.content.get("pid") if lease is not None and lease.alive else None


def assert_undisturbed(folder: Path, undisturbed: Path, count: int = 2) -> None:
    """Compare the runs of seed 1 in two folders of outputs: weights bit for bit, curves row for row."""
    runs = [run for run in directories(folder) if run.path.name == "seed1"]
    assert len(runs) == count
    for run in runs:
        whole = RunDirectory(undisturbed / run.path.relative_to(folder))
        assert run.status == whole.status == "finished"
        assert same_weights(run.last, whole.last) and same_weights(run.best, whole.best)
        assert curve(run) == curve(whole)


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


# Slurm


def on_slurm(test: Any) -> Any:
    reason = "needs a running Slurm: make test-slurm"
    return pytest.mark.slurm(pytest.mark.skipif(os.environ.get("HIGHWAY_SLURM") != "yes", reason=reason)(test))


def tool(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def queue() -> dict[str, str]:
    """Return the states of the jobs by their numbers."""
    lines = tool("squeue", "--noheader", "--array", "--format=%i %T", "--name=highway").splitlines()
    return {line.split()[0]: line.split()[1] for line in lines}


def restarts(number: str) -> int:
    return int(tool("scontrol", "show", "job", number).partition("Restarts=")[2].split()[0])


@on_slurm
def test_two_processes_of_srun_agree_with_one(tmp_path: Path, started: Callable[..., "subprocess.Popen[str]"]) -> None:
    """A sweep is one job array; each of its runs spans two nodes, and has the metrics of a single process."""
    process = started(tmp_path / "slurm", *SLURM, *ON_TWO, "trainer.nodes=2")
    until(process, lambda: len(queue()) == 2)
    assert {number.split("_")[0] for number in queue()} == {min(queue()).split("_")[0]}, "one array"
    assert sweep(tmp_path / "here", *ON_TWO).returncode == 0
    assert ended(process).count("finished  ") == 2
    records, alone = ([read_json(path) for path in results(tmp_path / folder)] for folder in ("slurm", "here"))
    assert [record["environment"]["processes"] for record in records] == [2, 2]
    for record, single in zip(records, alone, strict=True):
        for name, value in single["metrics"].items():
            if not name.endswith("_seconds"):
                assert record["metrics"][name]["last"] == pytest.approx(value["last"], rel=1e-8)
    assert len(list((tmp_path / "slurm" / "slurm").glob("*_submission.sh"))) == 1 and not queue()


@on_slurm
def test_a_job_that_is_stopped_and_a_node_that_is_lost(
    tmp_path: Path, started: Callable[..., "subprocess.Popen[str]"], undisturbed: Path
) -> None:
    """A run that Slurm asks to stop, as when its time is over, and whose node is lost, goes back to the queue."""
    process = started(tmp_path, *SLURM, *TABLE, "rows=tanh")
    pid, number, _ = caught(tmp_path, process)
    tool("scancel", "--signal=TERM", number)
    os.kill(pid, signal.SIGCONT)
    until(process, lambda: restarts(number) == 1)
    _, number, node = caught(tmp_path, process)
    with lost(node):
        until(process, lambda: restarts(number) == 2)
        assert "did not finish" not in ended(process)
    assert_undisturbed(tmp_path, undisturbed, 1)


@on_slurm
def test_two_runs_in_one_job(
    tmp_path: Path, started: Callable[..., "subprocess.Popen[str]"], undisturbed: Path
) -> None:
    """Asked to stop, both runs of the job save; the job goes back to the queue, and both resume."""
    process = started(tmp_path, *SLURM, *RUNS, "hydra.launcher.per_gpu=2", "hydra.launcher.cpus=2")
    pid, number, _ = caught(tmp_path, process)
    assert list(queue()) == [number]
    tool("scancel", "--signal=TERM", number)
    os.kill(pid, signal.SIGCONT)
    until(process, lambda: restarts(number) == 1)
    assert "did not finish" not in ended(process)
    assert_undisturbed(tmp_path, undisturbed)


def caught(folder: Path, sweep: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """Stop the process of a run that has a checkpoint; return its number, that of its job, and its node."""
    pids: list[int] = []

    def one_is_stopped() -> bool:
        for run in directories(folder):
            if run.checkpoints and (pid := holder(run)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                    pids.append(pid)
                    return True
        return False

    until(sweep, one_is_stopped)
    around = Path(f"/proc/{pids[0]}/environ").read_text()
    number, node = (around.partition(f"{name}=")[2].partition("\0")[0] for name in ("SLURM_JOB_ID", "SLURMD_NODENAME"))
    return pids[0], number, node


@contextmanager
def lost(node: str) -> Iterator[None]:
    """Kill all processes of a node, as when its machine fails, and tell Slurm; afterwards start the node again.

    Slurm would notice by itself after minutes. A node that still answers returns to service at once, and holds the jobs
    that it has already.
    """
    for pid in processes_of(node):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    tool("scontrol", "update", f"nodename={node}", "state=down", "reason=lost")
    try:
        yield
    finally:
        tool("slurmd", "-N", node)


def processes_of(node: str) -> list[int]:
    """Return a node's daemon, the daemons of the jobs on it, and the processes of the jobs."""

    def matching(file: str, text: str) -> list[int]:
        pids = []
        for path in Path("/proc").glob(f"[0-9]*/{file}"):
            with suppress(OSError):
                if text in path.read_text(errors="replace"):
                    pids.append(int(path.parent.name))
        return pids

    jobs = matching("environ", f"SLURMD_NODENAME={node}\0")
    steps = [pid for pid in map(parent, jobs) if pid in matching("comm", "slurmstepd")]
    return [*matching("cmdline", f"slurmd\0-N\0{node}\0"), *steps, *jobs]


# Ray


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Start a head, to which sweeps connect, and two nodes of one core each.

    They ignore SIGINT, as processes started with a shell's & do.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    small = {"object_store_memory": 100 * 2**20, "include_dashboard": False}
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
    for _ in range(2):
        nodes.add_node(num_cpus=1, **small)
    signal.signal(signal.SIGINT, before)
    yield nodes
    nodes.shutdown()


@pytest.mark.ray
def test_a_lost_worker_and_a_lost_node(
    cluster: Any, tmp_path: Path, started: Callable[..., "subprocess.Popen[str]"], undisturbed: Path
) -> None:
    """One run loses its worker, one its whole node: both resume from their checkpoints on the remaining nodes."""
    address = f"hydra.launcher.address={cluster.address}"
    for overrides, sentence in (
        ((address, "hydra.launcher.num_cpus=2"), "needs 2 CPU, but no node of the Ray cluster has that much."),
        ((address, "trainer.accelerator=gpu"), "but the Ray cluster has no GPU"),
        (("hydra.launcher.address=nowhere",), "hydra.launcher.address=nowhere: no Ray cluster"),
    ):
        refused = sweep(tmp_path, *RUNS, *RAY, *overrides)
        assert refused.returncode == 2 and sentence in refused.stderr.splitlines()[-1]
    process = started(tmp_path, *RUNS, *RAY, address)
    until(process, lambda: [bool(run.checkpoints) for run in directories(tmp_path)] == [True, True])
    pids = [holder(run) for run in directories(tmp_path)]
    workers = [parent(pid) for pid in pids if pid is not None]
    raylets = [parent(worker) for worker in workers]
    assert len(set(raylets)) == 2, "a node each"
    os.kill(workers[0], signal.SIGKILL)
    os.kill(raylets[1], signal.SIGKILL)  # its worker lives on without it
    messages = ended(process)
    ours = {"2", "queued", "finished", "highway_t1"}
    assert {line.split()[0] for line in messages.splitlines()} <= ours, "no word of Ray's own"
    assert_undisturbed(tmp_path, undisturbed)


@pytest.mark.ray
def test_ctrl_c_and_a_cluster_of_this_machine(
    tmp_path: Path, started: Callable[..., "subprocess.Popen[str]"], undisturbed: Path
) -> None:
    """Ctrl-C stops a sweep with four runs on two cores and leaves no process behind; a second start finishes it."""
    process = started(tmp_path, *RUNS, "seeds=1,2", *RAY, "hydra.launcher.cores=2")
    until(process, lambda: sum(bool(run.checkpoints) for run in directories(tmp_path)) == 2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert "Type the same command again to resume" in ended(process, 130)
    statuses = sorted(run.status for run in directories(tmp_path))
    assert statuses == ["interrupted", "interrupted", "waiting", "waiting"]
    wait_for(lambda: not _session(process.pid), seconds=30)
    assert sweep(tmp_path, *RUNS, *RAY, "hydra.launcher.cores=2").returncode == 0
    assert_undisturbed(tmp_path, undisturbed)


def _session(leader: int) -> list[int]:
    """Return the ids of the living processes of a session."""
    stats = [(path.name, path.joinpath("stat")) for path in Path("/proc").glob("[0-9]*")]
    fields = {int(pid): stat.read_text().rpartition(")")[2].split() for pid, stat in stats if stat.exists()}
    return [pid for pid, values in fields.items() if values[3] == str(leader) and values[0] not in "ZX"]
