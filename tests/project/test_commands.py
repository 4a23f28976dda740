"""The commands that README, docs and every --help show are understood; those of README do what they say."""

import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from highway.commands import cli
from highway.commands.arguments import Arguments
from highway.commands.helps import COMMANDS, EXAMPLES
from highway.config.compose import experiment
from highway.sweep.reading import table_ids
from tests.support.commands import ROOT, typed

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
TRIED = [page for page in PAGES if page.name not in ("RECIPES.md", "LOG.md")]  # the others have own tests, or none


def commands_of(page: Path) -> list[str]:
    """Return the commands of a page, without comments."""
    blocks = re.findall(r"```bash\n(.*?)```", page.read_text(), flags=re.S)
    return [line.split(" #")[0].strip() for block in blocks for line in block.strip().splitlines()]


OF_PAGES = [command for page in TRIED for command in commands_of(page)]
SHOWN = [command for command in (*OF_PAGES, *sum(EXAMPLES.values(), ())) if command.startswith("highway ")]
EVERY_DAY = [*EXAMPLES["train"], *commands_of(ROOT / "README.md"), *commands_of(ROOT / "docs" / "COMMANDS.md")]
TRAINING = [shlex.split(command)[2:] for command in dict.fromkeys(EVERY_DAY) if command.startswith("highway train ")]


class Parsed(Exception):
    """The arguments of a command are valid."""


def test_every_command_that_is_shown_parses(monkeypatch: pytest.MonkeyPatch) -> None:
    for way in ("parse_args", "parse_intermixed_args"):
        parse = getattr(Arguments, way)

        def parsed(self: Arguments, *arguments: Any, parse: Any = parse) -> None:
            parse(self, *arguments)
            raise Parsed

        monkeypatch.setattr(Arguments, way, parsed)
    assert set(EXAMPLES) == set(COMMANDS)
    for command in SHOWN:
        _, name, *arguments = shlex.split(command.split(" >")[0])
        if name != "train":
            monkeypatch.setattr(sys, "argv", [f"highway {name}", *arguments])
            with pytest.raises(Parsed):
                import_module(f"highway.commands.{name.replace('-', '_')}").main()


def test_every_training_that_is_shown_composes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Sweeps are checked as with plan=true, but nothing is timed."""
    monkeypatch.chdir(tmp_path)
    planned: list[int] = []
    monkeypatch.setattr("highway.sweep.cost.foresee", lambda every, *_: planned.append(len(every)))
    sweeps = [overrides for overrides in TRAINING if "-m" in overrides]
    for overrides in sweeps:
        monkeypatch.setattr(sys, "argv", ["train.py", *overrides, *({"plan=true"} - set(overrides))])
        cli.train()
    assert len(planned) == len(sweeps) and min(planned) > 0
    for overrides in TRAINING:
        assert "-m" in overrides or experiment(overrides).seed


@pytest.mark.slow
def test_the_commands_of_readme_run() -> None:
    for command in commands_of(ROOT / "README.md"):
        if command.startswith("highway "):
            _, name, *arguments = shlex.split(command)
            done = typed(f"{name}.py", *arguments)
            assert done.returncode == 0 and "Traceback" not in done.stderr, f"{command}\n{done.stderr}"


def test_make_has_the_targets_of_the_pages_and_of_every_table() -> None:
    targets = {command.split()[1] for command in OF_PAGES if command.startswith("make ")}
    assert {"setup", "demo", "report", "audit"} <= targets
    done = subprocess.run(["make", "-n", *targets, *table_ids()], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_links_lead_somewhere() -> None:
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\(([^)#]+)\)", page.read_text())]
    assert [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()] == []


COMPLETE = """
highway() {{ {python} -m highway "$@"; }}
eval "$(highway completion)"
complete_line() {{
    COMP_LINE="$1"; COMP_WORDS=($1); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
    _highway; echo "${{COMPREPLY[@]}}"
}}
complete_line "highway report highway_t"
complete_line "highway train -m table=hsg"
complete_line "highway train optimizer.plateau.w"
"""


def test_the_shell_completes() -> None:
    script = COMPLETE.format(python=sys.executable)
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    tables, options, keys = (line.split() for line in done.stdout.splitlines())
    assert tables == [f"highway_t{number}" for number in range(1, 8)]
    assert (options, keys) == (["table=hsg_t1"], ["optimizer.plateau.window="])
