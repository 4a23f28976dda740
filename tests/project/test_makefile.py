"""make setup, with stand-ins for python and pip: if killed at any moment, the next one repairs what it left."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[2]
PIP = """#!/bin/sh
[ ! -e "{venv}/half a package" ] || exit 1
touch "{venv}/half a package"
echo "$@" >> pip.log
case "$*" in *"$STALL"*) sleep 60 ;; esac
rm "{venv}/half a package"
"""
PYTHON = f"""#!/bin/sh
case "$*" in
*"import torch"*) exit 1 ;;
*venv*) mkdir -p .venv/bin; printf '%s' '{PIP.format(venv=".venv")}' > .venv/bin/pip; chmod +x .venv/bin/pip ;;
esac
"""


def setup(folder: Path, stall: str = "never") -> "subprocess.Popen[str]":
    return subprocess.Popen(
        ["make", "setup", f"PYTHON={folder / 'python'}"],
        cwd=folder,
        env={**os.environ, "STALL": stall},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("moment", ["constraints.txt torch", "-e .", "[dev]"])
def test_a_set_up_that_was_killed_is_repaired(tmp_path: Path, moment: str) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    killed = setup(tmp_path, stall=moment)
    wait_for(lambda: (tmp_path / "pip.log").exists() and moment in (tmp_path / "pip.log").read_text())
    assert subprocess.run(["make", "help"], cwd=tmp_path, capture_output=True).returncode == 0
    assert (tmp_path / ".venv" / "half a package").exists(), "another make leaves a set-up that is underway alone"
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    again = setup(tmp_path)
    output, _ = again.communicate(timeout=60)
    assert again.returncode == 0, output
    steps = [line for line in output.splitlines() if line.startswith("installing ")]
    assert all(" MB to download" in line for line in steps), "a step says before it begins how large it is"
    assert len(steps) == len(re.findall(r"^    took \d+ s$", output, re.MULTILINE)) == 4
    asked = (tmp_path / "pip.log").read_text().splitlines()[-4:]
    assert [phrase.split()[-1] for phrase in asked] == ["torch", ".", ".[dev]", ".[ray]"]
    assert not (tmp_path / ".venv" / ".begun").exists()
    settled = setup(tmp_path)
    settled.communicate()
    assert len((tmp_path / "pip.log").read_text().splitlines()) == len(asked) + {"c": 1, "-": 2, "[": 3}[moment[0]]
