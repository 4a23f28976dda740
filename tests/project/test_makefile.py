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
INSTALLED = ["torch", ".", ".[dev]", "axe-playwright-python==0.1.8", ".[ray]"]
PYTHON = f"""#!/bin/sh
case "$*" in
*"import torch"*) exit 1 ;;
*venv*) mkdir -p .venv/bin; printf '%s' '{PIP.format(venv=".venv")}' > .venv/bin/pip; chmod +x .venv/bin/pip ;;
esac
"""


def setup(folder: Path, stall: str = "never", uv: str = "") -> "subprocess.Popen[str]":
    return subprocess.Popen(
        ["make", "setup", f"PYTHON={folder / 'python'}", f"UV={uv}"],
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
    asked = (tmp_path / "pip.log").read_text().splitlines()[-len(INSTALLED) :]
    assert [phrase.split()[-1] for phrase in asked] == INSTALLED
    assert not (tmp_path / ".venv" / ".begun").exists()
    settled = setup(tmp_path)
    settled.communicate()
    assert len((tmp_path / "pip.log").read_text().splitlines()) == len(asked) + {"c": 1, "-": 2, "[": 3}[moment[0]]


@pytest.mark.parametrize("keeps_torch", [False, True])
def test_uv_installs_where_it_is_installed(tmp_path: Path, keeps_torch: bool) -> None:
    """uv does not see a torch outside of .venv, so pip keeps that one."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    outside = "; echo 'include-system-site-packages = true' > .venv/pyvenv.cfg ;;\nesac"
    (tmp_path / "python").write_text(PYTHON.replace(" ;;\nesac", outside) if keeps_torch else PYTHON)
    (tmp_path / "uv").write_text('#!/bin/sh\necho "$@" >> uv.log\n')
    for name in ("python", "uv"):
        (tmp_path / name).chmod(0o755)
    output, _ = setup(tmp_path, uv=str(tmp_path / "uv")).communicate(timeout=60)
    log, other = (tmp_path / name for name in (("pip.log", "uv.log") if keeps_torch else ("uv.log", "pip.log")))
    assert not other.exists(), output
    lines = log.read_text().splitlines()
    assert [line.split()[-1] for line in lines] == INSTALLED
    if not keeps_torch:
        assert all(line.startswith("pip install -q --python .venv/bin/python ") for line in lines)
