"""make setup, with stand-ins for python and pip: if killed at any moment, the next one repairs what it left."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

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


def setup(folder: Path, stall: str = "never") -> "subprocess.Popen[str]":
    return subprocess.Popen(
        ["make", "setup", f"PYTHON={folder / 'python'}", "UV="],
        cwd=folder,
        env={**os.environ, "STALL": stall},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_a_set_up_that_was_killed_is_repaired(tmp_path: Path) -> None:
    moment = "-e ."
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
    asked = (tmp_path / "pip.log").read_text().splitlines()[-len(INSTALLED) :]
    assert [phrase.split()[-1] for phrase in asked] == INSTALLED
    assert not (tmp_path / ".venv" / ".begun").exists()
    settled = setup(tmp_path)
    settled.communicate()
    assert len((tmp_path / "pip.log").read_text().splitlines()) == len(asked) + 2, "the two of the killed one, no more"
