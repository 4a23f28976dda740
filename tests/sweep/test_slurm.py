"""hydra/launcher=slurm: what it asks sbatch for, with a pretended Slurm; test_clusters.py has a real one."""

import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from highway.config.compose import experiment
from highway.errors import Refused
from highway.run.devices import cluster_environment, first_process
from highway.sweep import slurm
from highway.sweep.launcher import Job, Launcher
from highway.sweep.planned_run import Planned
from highway.sweep.process import SlurmRuns, job_code
from highway.sweep.slurm import SlurmLauncher
from tests.support.sweeps import planned_run
from tests.support.tables import write_ended
from tests.support.waiting import wait_for

THREADS = {"OMP_NUM_THREADS": "3"}


def planned(folder: Path, seed: int = 1, accelerator: str = "cpu", devices: int = 1, nodes: int = 1) -> Planned:
    directory = folder / "cells" / "transformer-0123456789ab" / f"seed{seed}"
    needs = {"accelerator": accelerator, "devices": devices, "nodes": nodes}
    return planned_run(directory, f"seed {seed}", (f"seed={seed}",), **needs)


class Pretended:
    """A Slurm of shell scripts: sbatch keeps the scripts it is given, squeue prints the content of `queue`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.queue = folder, folder / "queue"
        self.queue.touch()
        self.tool(
            "sbatch",
            f"n=$(ls {folder}/*.sh 2>/dev/null | wc -l); cp $1 {folder}/$n.sh; echo Submitted batch job $((n+7))",
        )
        self.tool("squeue", f"echo $* >> {folder}/asked; cat {self.queue}")
        self.tool("scancel", f"echo $* >> {folder}/cancelled")
        self.tool("srun", "false")

    def tool(self, name: str, line: str) -> None:
        (self.folder / name).write_text(f"#!/bin/bash\n{line}\n")
        (self.folder / name).chmod(0o755)

    def script(self, number: int = 0) -> str:
        return (self.folder / f"{number}.sh").read_text()


@pytest.fixture
def pretended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pretended:
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.defpath}")
    monkeypatch.setattr(slurm, "ASK_EVERY", 0.0)
    return Pretended(folder)


def jobs_of(through: SlurmLauncher, planned_runs: Sequence[Planned]) -> list[Job]:
    jobs = dict(through.start(planned_runs))
    return [jobs[planned] for planned in planned_runs]


def launcher(folder: Path, **asked: Any) -> SlurmLauncher:
    from omegaconf import OmegaConf

    made = SlurmLauncher(**asked)
    made.config = OmegaConf.create(
        {
            "outputs_dir": str(folder / "outputs"),
            "data_dir": str(folder / "data"),
            "hydra": {"runtime": {"config_sources": []}},
        }
    )
    made.prepare([], 9)
    return made


def test_what_sbatch_is_asked_for(tmp_path: Path, pretended: Pretended) -> None:
    asked = {"partition": "long", "account": "us", "qos": "low", "cpus": 3, "memory_gb": 1.5, "minutes": 90}
    more = {"setup_lines": ["module load x"], "parameters": {"constraint": "a100"}, "array_parallelism": 2}
    planned_runs = [planned(tmp_path, seed, "gpu", 2, nodes=3) for seed in (1, 2, 3)]
    jobs_of(launcher(tmp_path, **asked, **more), planned_runs)
    script = pretended.script()
    flags = "partition=long account=us qos=low nodes=3 ntasks-per-node=2 gpus-per-node=2 cpus-per-task=3 mem=1536M"
    flags += " time=90 array=0-2%2 constraint=a100 signal=TERM@120 requeue job-name=highway"
    for flag in flags.split():
        assert f"#SBATCH --{flag}\n" in script, flag
    assert "\nmodule load x\n" in script
    assert re.search(r"^srun .* --cpus-per-task=3 --kill-on-bad-exit=1 .*python.* -m submitit", script, re.MULTILINE)
    assert str(tmp_path / "outputs" / "slurm") in script


def test_the_cluster_decides_what_nobody_asked_for(tmp_path: Path, pretended: Pretended) -> None:
    jobs_of(launcher(tmp_path), [planned(tmp_path)])
    assert not re.search("partition|account|qos|--mem|gpus|array|exclusive", pretended.script())


def test_cells_of_one_kind_are_one_array(tmp_path: Path, pretended: Pretended, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "LARGEST_ARRAY", 2)
    planned_runs = [planned(tmp_path, seed, "cpu", 1 + (seed == 2)) for seed in (1, 2, 3, 4)]
    jobs = jobs_of(launcher(tmp_path), planned_runs)
    assert [job.number for job in jobs] == ["7_0", "9", "7_1", "8"]  # type: ignore[attr-defined]


RUN = """
import os, signal, sys, time
print(sys.argv[1], os.environ["OMP_NUM_THREADS"], flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
time.sleep(60 if sys.argv[1] == "long" else 0)
"""


def test_a_job_passes_a_signal_on_to_its_runs_and_waits_for_all(tmp_path: Path) -> None:
    names = ("short", "long")
    logs = [tmp_path / name / "log.txt" for name in names]
    job = tmp_path / "job"
    job.write_bytes(pickle.dumps(SlurmRuns([[sys.executable, "-c", RUN, name] for name in names], logs, THREADS)))
    start = f"import pickle; pickle.load(open({str(job)!r}, 'rb'))()"
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", start])
    wait_for(lambda: all(log.exists() and log.read_text() for log in logs))
    time.sleep(0.5)  # until the run has its handler, and the short one has ended
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 130
    assert [log.read_text() for log in logs] == ["short 3\n", "long 3\n"]


@pytest.mark.parametrize(
    ("returncodes", "code"),
    [
        ([0], 0),
        ([0, 3, 1], 3),
        ([1, 130, -9], 130),  # the run that saved would otherwise not go on
        ([0, -15], 143),
        ([1, -9], 137),
        ([-11, 0], 139),
    ],
)
def test_the_exit_code_of_a_job_brings_it_back_for_any_run_that_can_go_on(returncodes: list[int], code: int) -> None:
    assert job_code(returncodes) == code


def test_runs_of_one_device_share_a_job(tmp_path: Path, pretended: Pretended) -> None:
    through = launcher(tmp_path, per_gpu=2, cpus=5)
    large = [planned(tmp_path, seed, "gpu", 2) for seed in (8, 9)]
    jobs = jobs_of(through, [*large, *(planned(tmp_path, seed, "gpu") for seed in (1, 2, 3))])
    assert [job.number for job in jobs] == ["8_0", "8_1", "7_0", "7_0", "7_1"]  # type: ignore[attr-defined]
    assert "#SBATCH --gpus-per-node=1\n" in pretended.script() and "--cpus-per-task=5\n" in pretended.script()
    (shared, _) = sorted((tmp_path / "outputs" / "slurm").glob("7_*_submitted.pkl"))
    job = pickle.loads(shared.read_bytes()).function
    assert [log.parent.name for log in job.logs] == ["seed1", "seed2"]
    assert [command[-3] for command in job.commands] == ["trainer.threads=2"] * 2
    assert job.environment == {"HIGHWAY_SLOTS": "2", "OMP_NUM_THREADS": "2"}


def test_each_run_of_a_shared_job_ends_by_itself(tmp_path: Path, pretended: Pretended) -> None:
    planned_runs = [planned(tmp_path, seed) for seed in (1, 2, 3)]
    jobs = jobs_of(launcher(tmp_path, per_gpu=3), planned_runs)
    pretended.queue.write_text("7 None\n")
    write_ended(planned_runs[0].directory.path, "finished")
    write_ended(planned_runs[1].directory.path, "failed")
    write_ended(planned_runs[2].directory.path, "interrupted")  # the job goes back to the queue with it
    assert [job.poll() for job in jobs] == [0, 1, None]
    for job in jobs[1:]:
        job.terminate()
    pretended.queue.write_text("")
    for job in jobs[1:]:
        job.wait()
    assert (pretended.folder / "cancelled").read_text() == "7\n", "once"


@pytest.mark.parametrize(
    ("code", "restarts", "state", "again"),
    [
        (0, 0, "RUNNING", False),
        (1, 0, "RUNNING", False),
        (2, 0, "RUNNING", False),
        (130, 99, "RUNNING", True),
        (143, 99, "RUNNING", True),  # asked to stop before it could handle the signal
        (130, 0, "COMPLETING", False),  # by scancel
        (137, 1, "RUNNING", True),
        (137, 2, "RUNNING", False),  # out of memory: it would be requeued for ever
    ],
)
def test_which_jobs_go_back_to_the_queue(
    pretended: Pretended, code: int, restarts: int, state: str, again: bool
) -> None:
    pretended.tool("squeue", f"echo {state}")
    pretended.tool("scontrol", f"echo $* > {pretended.folder}/requeued")
    shell = f"(exit {code})\n{slurm.AGAIN.format(kills=2)}"
    surroundings = {**os.environ, "SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": str(restarts)}
    assert subprocess.run(["bash", "-c", shell], env=surroundings).returncode == code
    assert (pretended.folder / "requeued").exists() is again


def test_the_ledger_says_how_a_job_ended(tmp_path: Path, pretended: Pretended) -> None:
    planned_runs = [planned(tmp_path, seed) for seed in (1, 2, 3)]
    jobs = jobs_of(launcher(tmp_path), planned_runs)
    pretended.queue.write_text("7_0\n7_1\n7_2\n5\n")
    assert [job.poll() for job in jobs] == [None] * 3
    pretended.tool("squeue", "exit 1")
    assert [job.poll() for job in jobs] == [None] * 3, "a silent Slurm has lost no job"
    pretended.tool("squeue", "echo 7_2")
    write_ended(planned_runs[0].directory.path, "finished")
    write_ended(planned_runs[1].directory.path, "interrupted")
    assert [job.poll() for job in jobs] == [0, 1, None]


def test_the_queue_is_asked_once_for_all(tmp_path: Path, pretended: Pretended, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "ASK_EVERY", 60.0)
    through = launcher(tmp_path)
    jobs = jobs_of(through, [planned(tmp_path, seed) for seed in range(50)])
    assert [job.poll() for job in [*jobs, *jobs]] == [1] * 100
    (late,) = jobs_of(through, [planned(tmp_path, 50)])
    assert late.poll() is None, "it cannot be in an older answer"
    assert (pretended.folder / "asked").read_text().count("\n") == 1


def test_a_job_that_slurm_holds_is_named_once(
    tmp_path: Path, pretended: Pretended, caplog: pytest.LogCaptureFixture
) -> None:
    """After a node has failed, Slurm may put a job back and never start it by itself."""
    jobs = jobs_of(launcher(tmp_path), [planned(tmp_path, seed) for seed in (1, 2)])
    pretended.queue.write_text("7_0 launch failed requeued held\n7_1 Resources\n")
    assert [job.poll() for job in [*jobs, *jobs]] == [None] * 4
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == ("Slurm holds job 7_0 (launch failed requeued held). Type `scontrol release 7_0` to let it start.")


def test_a_cell_that_seems_to_run_is_waited_for(
    tmp_path: Path, pretended: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose job is gone is waited for. Its lease tells later whether its process died on another machine."""
    (job,) = jobs_of(launcher(tmp_path), [one := planned(tmp_path)])
    with one.directory.leased():
        assert job.poll() is None
        monkeypatch.setattr(slurm, "STALE", -1.0)
        assert job.poll() == 1, "it is another's"


def test_stopping_cancels(tmp_path: Path, pretended: Pretended) -> None:
    jobs = jobs_of(launcher(tmp_path), [planned(tmp_path, seed) for seed in (1, 2)])
    for job in jobs:
        job.terminate()
    for job in jobs:
        job.wait()
    assert (pretended.folder / "cancelled").read_text() == "7_0 7_1\n"


def test_slurm_may_refuse(tmp_path: Path, pretended: Pretended) -> None:
    pretended.tool("sbatch", "echo sbatch: error: invalid partition specified: long >&2; exit 1")
    with pytest.raises(Refused, match=r"^Slurm refused the jobs: .*invalid partition specified: long\.$"):
        jobs_of(launcher(tmp_path), [planned(tmp_path)])
    pretended.tool("sbatch", "echo 'sbatch: error: Invalid generic resource (gres) specification' >&2; exit 1")
    with pytest.raises(Refused, match=r"\. Write trainer.accelerator=cpu to ask for no GPU"):
        jobs_of(launcher(tmp_path), [planned(tmp_path, accelerator="auto")])


@pytest.mark.parametrize(
    ("word", "sentence"),
    {
        "partition='gpu long'": "hydra.launcher.partition=gpu long must be a name of letters, digits and _ . , : @ + -",
        "minutes=abc": "hydra.launcher.minutes=abc must be a whole number",
        "cpus=0": "hydra.launcher.cpus=0 is out of range; it must be at least 1",
        "kills=-1": "hydra.launcher.kills=-1 is out of range; it must be at least 0",
        "array_parallelism=1.5": "hydra.launcher.array_parallelism=1.5 must be a whole number or null",
        "memory_gb=0": "hydra.launcher.memory_gb=0 is out of range; it must be at least 0.001",
        "memory_gb=much": "hydra.launcher.memory_gb=much must be a finite number or null",
        "minutes=3": "hydra.launcher.minutes=3 leaves no time to train",
        "parameters=fast": "hydra.launcher.parameters=fast must be keys with values",
        "setup_lines=module": "hydra.launcher.setup_lines=module must be a list, as in [a,b]",
    }.items(),
)
def test_what_cannot_be_is_refused(
    word: str, sentence: str, capfd: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    from highway.cli import main

    monkeypatch.setattr(sys, "argv", ["train.py", "-m", "hydra/launcher=slurm", f"hydra.launcher.{word}"])
    with pytest.raises(SystemExit) as end:
        main("train")
    assert end.value.code == 2
    said = capfd.readouterr().err
    assert sentence in said and said.count("\n") == 1


def test_a_parameter_is_one_line() -> None:
    """A line break, from a configuration file, would begin another line of the script that sbatch reads."""
    with pytest.raises(Refused, match="'comment' has a line break"):
        SlurmLauncher(parameters={"comment": "a\n#SBATCH --uid=0"})


def test_where_there_is_no_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refused, match="start it on a login node"):
        launcher(tmp_path)
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(Refused, match=re.escape("pip install -e '.[slurm]'")):
        launcher(tmp_path)


def test_only_slurm_has_several_nodes(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"trainer.nodes=2 needs hydra/launcher=slurm"):
        Launcher().launch_runs([planned(tmp_path, nodes=2)], 1, False)


STARTED = {"MASTER_ADDR": "127.0.0.1"}  # set for each of several processes, with its rank


@pytest.fixture
def surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def settled(**variables: str) -> None:
        for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", *(name for name in os.environ if name.startswith("SLURM_"))):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    yield settled


def test_the_first_of_several_processes(surroundings: Any) -> None:
    for variables, first in (
        ({}, True),
        ({"LOCAL_RANK": "1", **STARTED}, False),
        ({"RANK": "2", "LOCAL_RANK": "0", **STARTED}, False),  # set by torchrun on the second machine
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "2", "SLURM_LOCALID": "0"}, False),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0", "LOCAL_RANK": "1", **STARTED}, False),
        ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, True),  # the shell of a job
    ):
        surroundings(**variables)
        assert first_process() is first, variables


@pytest.mark.parametrize("variables", [{"RANK": "1"}, {"LOCAL_RANK": "1"}, {"RANK": "abc", **STARTED}, {"RANK": ""}])
def test_a_rank_left_over_in_the_shell(surroundings: Any, variables: dict[str, str]) -> None:
    surroundings(**variables)
    with pytest.raises(Refused, match=r"is left over in this shell from another run\. Type `unset RANK"):
        first_process()


def test_several_processes_for_one_device(surroundings: Any) -> None:
    """A process that keeps no record must not train alone and exit with 0."""
    surroundings(RANK="1", **STARTED)
    with pytest.raises(Refused, match="takes one process, but this one has the rank of another"):
        cluster_environment(experiment(["trainer.devices=1"]).trainer)


def test_who_starts_the_processes(surroundings: Any) -> None:
    surroundings(SLURM_NTASKS="1", SLURM_PROCID="0", SLURM_STEP_ID="0", SLURM_STEP_NUM_TASKS="1")
    trainer = experiment(["trainer.devices=2"]).trainer
    assert not cluster_environment(trainer).creates_processes_externally, "a shell on a cluster is not srun's work"
    on_two_nodes = experiment(["trainer.devices=2", "trainer.nodes=2"]).trainer
    with pytest.raises(Refused, match=r"trainer.nodes=2, but only this process runs"):
        cluster_environment(on_two_nodes)
    tasks = {"SLURM_NTASKS": "4", "SLURM_NTASKS_PER_NODE": "2", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4"}
    surroundings(**tasks, SLURM_PROCID="0")
    with pytest.raises(Refused, match=r"srun has started 4 processes, trainer.devices=2 takes 2"):
        cluster_environment(trainer)
    found = cluster_environment(on_two_nodes)
    assert found.creates_processes_externally and not found.auto_requeue  # type: ignore[attr-defined]


def test_lanes_are_divided_among_all_nodes() -> None:
    with pytest.raises(Refused, match=r"trainer.devices=9 on trainer.nodes=2 is more than dataset.train.lanes=16"):
        experiment(["trainer.devices=9", "trainer.nodes=2"])
