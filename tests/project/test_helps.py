"""The help of every command: what it does, three examples that parse, options with descriptions, exit codes."""

import re
import shlex
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

from highway.commands.arguments import Arguments
from highway.commands.helps import COMMANDS, EXAMPLES, EXIT_CODES, USUAL
from highway.config.compose import experiment
from tests.support.commands import ROOT, typed

OURS = [name for name in COMMANDS if name != "train"]
PARSED = [(name, example) for name in OURS for example in EXAMPLES[name] if example.startswith("highway ")]


class Parsed(Exception):
    """The arguments of a command are valid."""


def shown(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the help of a command."""
    if name == "train":
        return typed("train.py", "--help").stdout
    monkeypatch.setattr(sys, "argv", [f"highway {name}", "--help"])
    with pytest.raises(SystemExit) as end:
        module_of(name).main()
    assert end.value.code == 0
    return capsys.readouterr().out


def module_of(name: str) -> Any:
    return import_module(f"highway.commands.{name.replace('-', '_')}")


def test_every_command_has_examples() -> None:
    assert set(EXAMPLES) == set(COMMANDS) and set(EXIT_CODES) <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_exit_codes_and_described_options(name: str, capsys: Any, monkeypatch: Any) -> None:
    text = shown(name, capsys, monkeypatch)
    assert f"usage: highway {name} " in text
    for example in EXAMPLES[name]:
        assert f"\n  {example}\n" in text
    for code, meaning in EXIT_CODES.get(name, USUAL).items():
        assert re.search(rf"^  {code} +{re.escape(meaning)}$", text, flags=re.M)
    described, _, _ = text.partition("\nexamples:")
    for option, below in re.findall(r"^  (-{1,2}[a-z].*)\n(.*)", described, flags=re.M):
        assert re.search(r"\S  +\S", option) or below.startswith("     "), option


@pytest.mark.parametrize(("name", "example"), PARSED)
def test_examples_parse(name: str, example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for way in ("parse_args", "parse_intermixed_args"):
        parse = getattr(Arguments, way)

        def parsed(self: Arguments, *arguments: Any, parse: Any = parse) -> None:
            parse(self, *arguments)
            raise Parsed

        monkeypatch.setattr(Arguments, way, parsed)
    monkeypatch.setattr(sys, "argv", [f"highway {name}", *shlex.split(example.split(" >")[0])[2:]])
    with pytest.raises(Parsed):
        module_of(name).main()


@pytest.mark.parametrize(  # the plan of a sweep trains a few steps to time them
    "example", [pytest.param(line, marks=[pytest.mark.slow] if " -m " in line else []) for line in EXAMPLES["train"]]
)
def test_examples_of_train_compose(example: str) -> None:
    overrides = shlex.split(example)[2:]
    if "-m" not in overrides:
        experiment(overrides)
    else:
        done = typed("train.py", *overrides, "plan=true")
        assert done.returncode == 0, done.stderr


COMPLETE = """
highway() {{ {python} -m highway "$@"; }}
eval "$(highway completion)"
COMP_LINE={quoted}; COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_highway; printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("highway tab", {"table"}),
        ("highway report highway_t", {f"highway_t{number}" for number in range(1, 8)}),
        ("highway train gate=sdu_t", {"gate=sdu_tanh"}),
        ("highway train -m table=hsg", {"table=hsg_t1"}),
        ("highway train optimizer.plateau.w", {"optimizer.plateau.window="}),
    ],
)
def test_the_shell_completes(line: str, expected: set[str]) -> None:
    script = COMPLETE.format(python=sys.executable, quoted=shlex.quote(line), line=line)
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    offered = done.stdout.split()
    assert expected <= set(offered) and all(word.startswith(line.split()[-1]) for word in offered)
