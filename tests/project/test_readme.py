"""The commands of README and docs do what they say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import ROOT
from tests.support.typed_words import BLOCKS, COMMANDS, PAGES, commands_of

FIRST = {
    command: block for block in reversed(BLOCKS) for command in commands_of(block) if command.startswith("highway ")
}
TYPED = [[command for command in commands_of(block) if FIRST.get(command) == block] for block in BLOCKS]


@pytest.mark.slow
@pytest.mark.parametrize("commands", [commands for commands in TYPED if commands], ids=lambda commands: commands[0])
def test_commands_run(commands: list[str], tmp_path: Path) -> None:
    """The commands of one block run one after another: a later one may read what an earlier one wrote."""
    environment = {**os.environ, "HIGHWAY_OUTPUTS": str(tmp_path)}
    for command in commands:
        arguments = [sys.executable, "-m", *command.split()]
        done = subprocess.run(arguments, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
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
