"""The commands of README and docs do what they say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import ROOT
from tests.support.typed_words import COMMANDS, PAGES

TYPED = list(dict.fromkeys(command for command in COMMANDS if command.startswith("highway ")))


@pytest.mark.slow
@pytest.mark.parametrize("command", TYPED)
def test_commands_run(command: str, tmp_path: Path) -> None:
    environment = {**os.environ, "HIGHWAY_OUTPUTS": str(tmp_path)}
    arguments = [sys.executable, "-m", *command.split()]
    done = subprocess.run(arguments, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_make_targets_exist() -> None:
    targets = [command.split()[1] for command in COMMANDS if command.startswith("make ")]
    assert {"setup", "demo", "lint", "highway_t1", "report", "audit", "gpu-check"} == set(targets)
    for target in targets:
        subprocess.run(["make", "-n", target], cwd=ROOT, check=True, capture_output=True)


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_help_lists_every_table() -> None:
    from highway.sweep.reading import table_ids

    shown = subprocess.run(["make", "help"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in ("setup", "demo", "test", "report", *table_ids()):
        assert re.search(rf"^{name}\b", shown, flags=re.M), shown
