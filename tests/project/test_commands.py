"""The commands that README, docs and every --help show are understood; those of README do what they say."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from highway.cli import app, main
from highway.config.compose import experiment
from highway.tables.reading import table_ids
from tests.support.commands import ROOT, typed

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
TRIED = [page for page in PAGES if page.name not in ("RECIPES.md", "LOG.md")]  # the others have own tests, or none


def commands_of(page: Path) -> list[str]:
    """Return the commands of a page, without comments."""
    blocks = re.findall(r"```bash\n(.*?)```", page.read_text(), flags=re.S)
    return [line.split(" #")[0].strip() for block in blocks for line in block.strip().splitlines()]


def every_command(group: Any, name: str = "highway") -> Iterator[tuple[str, Any]]:
    """Yield each command with its name, as `highway table status`."""
    for word, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from every_command(command, f"{name} {word}")
        else:
            yield f"{name} {word}", command


GROUP: Any = typer.main.get_command(app)
COMMANDS = dict(every_command(GROUP))
EXAMPLES = re.findall(r"^  (highway .*)$", "\n".join(command.epilog for command in COMMANDS.values()), flags=re.M)
OF_PAGES = [command for page in TRIED for command in commands_of(page)]
SHOWN = [command for command in (*OF_PAGES, *EXAMPLES) if command.startswith("highway ")]
EVERY_DAY = [*EXAMPLES, *commands_of(ROOT / "README.md"), *commands_of(ROOT / "docs" / "COMMANDS.md")]
TRAINING = [shlex.split(command)[2:] for command in dict.fromkeys(EVERY_DAY) if command.startswith("highway train ")]


def test_every_command_that_is_shown_parses() -> None:
    for shown in SHOWN:
        words = shlex.split(shown.split(" >")[0])
        name = " ".join(words[: 3 if words[1] in ("table", "data") else 2])
        with COMMANDS[name].make_context(name, words[len(name.split()) :]):
            pass


@pytest.mark.parametrize("name", ["highway", "highway table", "highway data", *COMMANDS])
def test_help_has_a_description_examples_and_exit_codes(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "argv", [*name.split(), "--help"])
    main()
    text = capsys.readouterr().out
    assert text.startswith(f"Usage: {name} [OPTIONS]") and "  -h, --help" in text
    described = [line for line in text.splitlines() if re.match(r"  [a-z]+  +[A-Z]", line)]
    assert not [line for line in described if line.endswith("...")], "the list of commands has whole sentences"
    if name not in ("highway table", "highway data"):
        assert "\n  Exit codes:\n    0    " in text and "\n    2    the command is wrong\n" in text
        shown = re.findall(r"^    (.*highway .*)$", text, flags=re.M)
        assert len(shown) >= 2 and all(name in example for example in shown)


def test_help_of_training_composes_what_is_typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["highway", "train", "model=rhn", "model.depth=7", "--help"])
    main()
    text = capsys.readouterr().out
    assert re.search(r"^  depth: 7 +# ", text, flags=re.M) and "\n  gate: g1, g2" in text


def test_help_imports_little() -> None:
    """So it is printed at once."""
    code = "import sys; from highway.cli import main; main(); print({'torch', 'pandas', 'hydra'} & {*sys.modules})"
    for arguments in ([], ["--help"], ["report", "--help"]):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
        assert done.stdout.startswith("Usage: highway") and done.stdout.endswith("set()\n")


def test_every_training_that_is_shown_composes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Sweeps are checked as with plan=true, but nothing is timed."""
    monkeypatch.chdir(tmp_path)
    planned: list[int] = []
    monkeypatch.setattr("highway.sweep.cost.foresee", lambda every, *_: planned.append(len(every)))
    sweeps = [overrides for overrides in TRAINING if "-m" in overrides]
    for overrides in sweeps:
        monkeypatch.setattr(sys, "argv", ["train.py", *overrides, *({"plan=true"} - set(overrides))])
        main("train")
    assert len(planned) == len(sweeps) and min(planned) > 0
    for overrides in TRAINING:
        assert "-m" in overrides or experiment(overrides).seed


@pytest.mark.slow
def test_the_commands_of_readme_run() -> None:
    for command in commands_of(ROOT / "README.md"):
        if command.startswith("highway "):
            _, name, *arguments = shlex.split(command)
            done = typed(name, *arguments)
            assert done.returncode == 0 and "Traceback" not in done.stderr, f"{command}\n{done.stderr}"


@pytest.mark.parametrize("script", ["report", "train"])
def test_a_script_is_its_command(script: str) -> None:
    command = [sys.executable, str(ROOT / "scripts" / f"{script}.py"), "--no-such-option"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith(f"error: --no-such-option is no option of highway {script}.")


def test_make_has_the_targets_of_the_pages_and_of_every_table() -> None:
    targets = {command.split()[1] for command in OF_PAGES if command.startswith("make ")}
    assert {"setup", "demo", "report", "audit"} <= targets
    done = subprocess.run(["make", "-n", *targets, *table_ids()], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_links_lead_somewhere() -> None:
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\(([^)#]+)\)", page.read_text())]
    assert [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()] == []


def completed(line: str) -> list[str]:
    """Return what the shell would offer at the end of a line."""
    words = f"{line}|".split(" ")  # the last word may be empty
    shell = {"_HIGHWAY_COMPLETE": "complete_bash", "COMP_CWORD": str(len(words) - 1)}
    shell["COMP_WORDS"] = "\n".join(words).removesuffix("|")
    done = subprocess.run(
        [sys.executable, "-m", "highway"], env={**os.environ, **shell}, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("highway pub", ["publish"]),
        ("highway table ", ["status", "explain", "time"]),
        ("highway report highway_t", [f"highway_t{number}" for number in range(1, 8)]),
        ("highway table explain hsg", ["hsg_t1"]),
        ("highway report --budget ", ["medium", "mini", "paper", "smoke"]),
        ("highway data prepare ptb_word_", ["ptb_word_carried", "ptb_word_memory", "ptb_word_rhn"]),
        ("highway train -m table=hsg", ["table=hsg_t1"]),
        ("highway train gate=none,sdu_t", ["gate=none,sdu_tanh"]),
        ("highway train hydra/launcher=l", ["hydra/launcher=local"]),
        ("highway train optimizer.plateau.w", ["optimizer.plateau.window="]),
        ("highway train model=rhn model.dep", ["model.depth="]),
        ("highway train -m row", ["rows="]),
        ("highway train --mu", ["--multirun"]),
    ],
)
def test_completion(line: str, expected: list[str]) -> None:
    assert completed(line) == expected


COMPLETE = """
highway() {{ {python} -m highway "$@"; }}
eval "$(highway completion)"
COMP_WORDS=(highway train gate=sdu_s); COMP_CWORD=2
_highway; echo "${{COMPREPLY[@]}}"
"""


def test_the_shell_completes() -> None:
    script = COMPLETE.format(python=sys.executable)
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "gate=sdu_sigmoid\n"
