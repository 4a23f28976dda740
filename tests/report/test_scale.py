"""The cost of reports of hundreds of records: a second report reads and draws nothing, and memory is bounded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from highway.config.compose import experiment
from highway.testing.runs import trained
from tests.support.commands import ROOT
from tests.support.many import copied
from tests.support.overrides import TINY

RECIPE = (*TINY[1:4], *TINY[6:], "model=transformer", "dataset=ptb_char", "dataset.source=sample")
SHORT = ("trainer.max_steps=30", "trainer.validate_every=10", "trainer.log_every=1", "trainer.evaluation_batch=64")
REPORT = "import sys; sys.argv = ['report.py', 'many']; from highway.commands import report; report.main()"
SITE = """
from pathlib import Path
from highway.site.build import build_site
from highway.sweep.grid import find
outputs = Path({!r})
build_site(outputs, [find("many", outputs)])
"""
SPENT = """
import time
print(time.process_time(), next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def cost(program: str, outputs: Path) -> tuple[float, float]:
    """Run a program as a process of its own; return its seconds of processor time and its peak memory in MiB."""
    surroundings = {**os.environ, "HIGHWAY_OUTPUTS": str(outputs), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program + SPENT], env=surroundings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seconds, kibibytes = done.stdout.split()[-2:]
    return float(seconds), int(kibibytes) / 1024


@pytest.mark.slow
def test_a_second_report_of_504_records_is_cheap(tmp_path: Path) -> None:
    recipe = [word for word in dict.fromkeys((*RECIPE, *SHORT)) if word.split("=")[1] != "null"]
    run, record = trained(experiment([*recipe, f"outputs_dir={tmp_path / 'run'}"]))
    assert record["status"] == "finished", record["error"]
    outputs = tmp_path / "outputs"
    copied(run.path, outputs, recipe, rows=63, seeds=8)
    os.sync()
    for program in (REPORT, SITE.format(str(outputs))):
        first, _ = cost(program, outputs)
        seconds, peak = cost(program, outputs)
        print(f"first {first:.1f} s, second {seconds:.1f} s, {peak:.0f} MiB")
        assert seconds < first and seconds < 5 and peak < 500
