"""Measure the waiting that is not training: for each run of a sweep, for `highway table status`, before the first step.

Processor seconds are measured beside clock seconds, because they do not depend on what else the machine does.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from highway.bench import trivial
from highway.config.compose import experiment
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.sweep.reading import load_table

ROOT = Path(__file__).parents[2]
TABLE = "highway_t1"
STATUS = ("-m", "highway", "table", "status", TABLE)
SWEEP = f"""
import sys
from highway.cli import main
from highway.sweep.launcher import Launcher
def command(launcher, planned):
    folder = planned.directory.path.resolve()
    return [sys.executable, {trivial.__file__!r}, str(folder), folder.name.removeprefix("seed")]
Launcher.command = command
main("train")
"""
FIRST_STEP = """
import os
from highway.cli import main
from highway.tasks.task import Task
Task.on_train_batch_end = lambda *_: os._exit(0)
main("train")
"""
LIMITS = {"a run of a sweep": 0.05, "status": 2.0, "the first step": 8.0}  # seconds
Spent = dict[str, float]  # by kind: `seconds` by the clock, and `processor_seconds`


def overhead(swept: int = 1_000, known: int = 10_000) -> dict[str, Any]:
    """Measure a sweep of `swept` runs, `status` with `known` runs on disk, and the start of a run."""
    with tempfile.TemporaryDirectory() as folder:
        measured = {
            "a run of a sweep": of_a_run(Path(folder) / "swept", swept),
            "status": of_status(Path(folder) / "known", known),
            "the first step": of_the_first_step(Path(folder) / "started"),
        }
    rows = [{"name": name, **spent, "limit": LIMITS[name]} for name, spent in measured.items()]
    return {"title": f"{swept:,} runs swept, status of {known:,}", "rows": rows}


def of_a_run(outputs: Path, runs: int) -> Spent:
    """Measure what a sweep adds to each run.

    The runs follow each other, so the overhead is the time of the sweep minus the time to start their processes.
    """
    seeds = ",".join(str(seed) for seed in range(1, runs // 10 + 1))
    rows = ["gate=none,sdu_tanh", "optimizer.lr=0.1,0.2,0.3,0.4,0.5", "budget=smoke", f"seed={seeds}"]
    whole = spent(outputs, "-c", SWEEP, "-m", *rows, "hydra.launcher.slots=1")
    starts = [spent(outputs, trivial.__file__, str(outputs / "one"), "1") for _ in range(20)]
    return {kind: whole[kind] / runs - sum(start[kind] for start in starts) / len(starts) for kind in whole}


def of_status(outputs: Path, runs: int) -> Spent:
    write_known(outputs, runs)
    return spent(outputs, *STATUS)


def write_known(outputs: Path, runs: int) -> None:
    """Write the records of `runs` runs of the table that `STATUS` shows, without training."""
    table = load_table(TABLE)
    rows = table.at("smoke")
    for row in rows:
        described = experiment([*table.overrides(row, "smoke", seed=1), f"outputs_dir={outputs}"])
        for seed in range(1, runs // len(rows) + 1):
            trivial.write(RunDirectory.of(described).path.parent / f"seed{seed}", seed)


def of_the_first_step(outputs: Path) -> Spent:
    table = load_table(TABLE)
    overrides = table.overrides(table.rows[0], "smoke", seed=1)
    return spent(outputs, "-c", FIRST_STEP, *overrides, "trainer.threads=2", "trainer.accelerator=cpu")


def spent(outputs: Path, *arguments: str) -> Spent:
    """Measure the seconds of a Python process, and of the processes that it starts."""
    surroundings = {**os.environ, "HIGHWAY_OUTPUTS": str(outputs), "PYTHONPATH": str(ROOT)}
    start = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, *arguments], env=surroundings, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        _, code, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(code)
        output.seek(0)
        if process.returncode:
            raise Refused(f"a measured command failed, and printed: {output.read().decode()[-2000:]}")
    return {"seconds": time.perf_counter() - start, "processor_seconds": usage.ru_utime + usage.ru_stime}
