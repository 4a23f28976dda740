"""Wrong inputs: records and table files with nonsense, leases of any content, and command lines with mistakes."""

import json
import os
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from highway import train
from highway.config.home import CONF
from highway.run import beforehand
from highway.sweep import engine, reading
from tests.faults import nonsense
from tests.faults.archives import resealed
from tests.faults.damage import reported
from tests.faults.scenes import GRID, Scenes
from tests.faults.trials import Case, Verdict, forked, script
from tests.support.typed_words import COMMANDS, KEYS

Attempt = Callable[[Scenes, Path, random.Random], Verdict]


def cases(scenes: Scenes, count: int = 270) -> list[Case]:
    kinds: dict[str, Attempt] = {
        "records": records,
        "table files": tables,
        "leases": leases,
        "command lines": command_lines,
    }
    return [_case(scenes, f"inputs: {kind}", n, attempt) for kind, attempt in kinds.items() for n in range(count)]


def _case(scenes: Scenes, kind: str, number: int, attempt: Attempt) -> Case:
    return Case(kind, f"number {number}", lambda folder: attempt(scenes, folder, random.Random(f"{kind} {number}")))


def _with(what: str, verdict: Verdict) -> Verdict:
    return Verdict(verdict.outcome, f"{what}: {verdict.details}")


# Records


def records(scenes: Scenes, folder: Path, chance: random.Random) -> Verdict:
    """Put nonsense into a record and seal it; a report leaves it out and says so, or does not need what was changed."""
    outputs = scenes.copy("grid/outputs", folder)
    path = chance.choice(sorted(outputs.glob("cells/*/*/result.json")))
    content = json.loads(path.read_bytes())
    content.pop("sha256")
    changed, what = nonsense.changed(content, chance)
    path.write_bytes(resealed(changed))
    return _with(what, reported(scenes, outputs))


# Table files


def tables(scenes: Scenes, folder: Path, chance: random.Random) -> Verdict:
    """Put nonsense into a table file: it is refused, and no part of it is left for a sweep or a report to fail on."""
    path = chance.choice(sorted((CONF / "table").glob("*.yaml")))
    (folder / "table").mkdir()
    text, what, must_refuse = _altered(path.read_text(), chance)
    (folder / "table" / path.name).write_bytes(text)

    def load() -> None:
        reading.conf_file = lambda _: folder / "table" / path.name
        reading.load_table(path.stem)

    ended = forked(load)
    if verdict := ended.forbidden():
        return _with(f"{path.name}, {what}", verdict)
    if ended.refused:
        return Verdict("refused", ended.errors)
    return Verdict("WRONG" if must_refuse else "right", f"{path.name}: {what} is accepted")


def _altered(text: str, chance: random.Random) -> tuple[bytes, str, bool]:
    """Return a changed table file, what was changed, and whether it must be refused."""
    if chance.random() < 0.75:
        content, what = nonsense.changed(yaml.safe_load(text), chance)
        return yaml.safe_dump(content, sort_keys=False).encode(), what, not what.endswith(" is gone")
    lines = text.splitlines()
    number = chance.randrange(len(lines))
    keys = [i for i, line in enumerate(lines) if line[:1].isalpha()]
    ways: dict[str, tuple[bytes, bool]] = {
        "cut off": ("\n".join(lines[:number]).encode(), False),
        "a tab": ("\n".join([*lines[:number], "\t" + lines[number], *lines[number + 1 :]]).encode(), False),
        "a key twice": ("\n".join([*lines, lines[chance.choice(keys)]]).encode(), True),
        "latin-1": (text.replace("e", "é", 1).encode("latin-1"), True),
        "NUL": (text.replace("e", "\0", 1).encode(), True),
        "nested aliases": (
            b"".join(
                b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9 if n else [b"1"])) for n in range(12)
            ),
            True,
        ),
        "deep": (b"[" * 5000, True),
        "empty": (b"", True),
        "binary": (chance.randbytes(1000), True),
        "a tag": (b"id: !!python/object/apply:os.system ['true']\n", True),
        "a word": (b"words\n", True),
    }
    what = chance.choice(sorted(ways))
    return *ways[what][:1], f"{what} at line {number}", ways[what][1]


# Leases

NAMES = (
    *("7.json", "2.json", "2 (copy).json", "0.json", "-1.json", f"{'9' * 30}.json", ".json", "٣.json", "x.json", "7"),
    *("8.json.tmp", "1e5.json", "²json", "²²².json", "00002.json"),
)


def leases(scenes: Scenes, folder: Path, chance: random.Random) -> Verdict:
    """Write leases of any name, content and age into a stopped run, and start it."""
    outputs = scenes.copy("stopped", folder)
    home = scenes.directory(outputs).leases
    own = json.loads(max(home.glob("*.json")).read_text())
    for _ in range(chance.randint(1, 3)):
        name = chance.choice(NAMES)
        content: Any = chance.choice(
            [own, own, own, [], "", None, 5, {}, {"ended": "no"}, b"\xff\xfe", b"{", "[" * 5000]
        )
        if isinstance(content, dict) and content:
            machine = chance.choice([own["machine"], "another", None, [], 5])
            content = {**content, "ended": chance.choice([False, False, True]), "machine": machine}
            if chance.random() < 0.5:
                content, _ = nonsense.changed(content, chance)
        path = home / name
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        _make(path, raw, chance.random())
        age = chance.choice([0, 0, 3600, -3600, -1e9, 30])
        if path.is_file():
            os.utime(path, (time.time() - age,) * 2)
    listed = {path.name: path.read_bytes()[:200] if path.is_file() else "?" for path in sorted(home.iterdir())}
    return _with(f"{listed}", scenes.judged(outputs))


def _make(path: Path, content: bytes, share: float) -> None:
    """Write a file; in one of five cases, a folder or a FIFO. Leave alone what is no file already."""
    if path.exists() and not path.is_file():
        return
    if share < 0.8:
        path.write_bytes(content)
    elif not path.exists():
        path.mkdir() if share < 0.9 else os.mkfifo(path)


# Command lines

VALUES = (
    *("", " ", "null", "nan", "-inf", "1e400", "true", "-1", "0", "99999999999999999999", "${seed}", "${oc.env:HOME}"),
    *("[", "[1,2", "{a:1}", "'", '"', "\\", "=", "a=b", "x,y", "../../x", "/dev/zero", "/proc/self/mem", "ä", "\u202e"),
    *("*", "choice(1,2)", "range(1,3)", "glob(*)", "1,2,3", "int(x)", "${", "$(true)", ";true", "a" * 5000, "!!python"),
)
FLAGS = (
    "--help",
    "-m",
    "--cfg",
    "job",
    "--resolve",
    "--info",
    "--hydra-help",
    "-c",
    "-p",
    "--version",
    "--nonsense",
    "-",
)
PREFIXES = ("~", "+", "++", "hydra.", "hydra/", "@", ".", "trainer.", "-", "--")
NAMES = ("train", "table", "report", "records", "data", "dashboard", "generate", "translate")


def command_lines(scenes: Scenes, folder: Path, chance: random.Random) -> Verdict:
    """Make mistakes in the commands of the documentation, which are cut off before they train or download."""
    known = [line.split() for line in COMMANDS if line.startswith(tuple(f"highway {name}" for name in NAMES))]
    _, name, *words = chance.choice([line for line in known if "|" not in line])
    words = [word.replace('"', "") for word in words]
    for _ in range(chance.choice((1, 1, 1, 2))):
        words = _mistaken(words, chance)
    outputs = folder / "outputs"
    if chance.random() < 0.3:
        scenes.copy("grid/outputs", folder)
        words = [GRID if word in ("highway_t1", "highway_t3", "rates") else word for word in words]

    words = [word for word in words if "\0" not in word and word not in ("--watch", "--send", "--sync", "prepare")]
    verdict = script(f"{name}.py", *words, outputs=outputs, before=cut_off)
    what = f"{name} {' '.join(map(repr, words))[:300]}"
    if wrong := verdict.forbidden():
        return _with(what, wrong)
    return Verdict("refused" if verdict.refused else "right", what)


def cut_off() -> None:
    """Let commands begin to train, and no more."""
    os.environ["HIGHWAY_DATA"] = "nothing"
    train.run = lambda *_: "finished"
    beforehand.have_data = lambda *_: None
    engine.EngineLauncher.launch_runs = lambda *_: None  # type: ignore[method-assign]
    socket.socket.connect = _offline  # type: ignore[method-assign]


def _offline(*_: Any) -> None:
    raise OSError(101, "Network is unreachable")


def _mistaken(words: list[str], chance: random.Random) -> list[str]:
    words = [*words]
    at = chance.randrange(len(words) + 1) if words else 0
    word = words[at] if at < len(words) else ""
    key = word.split("=")[0]
    way = chance.randrange(11)
    if way == 0 or not word:
        words.insert(at, chance.choice((*FLAGS, *VALUES)))
    elif way == 1:
        words[at] = f"{key}={chance.choice(VALUES)}"
    elif way == 2:
        words[at] = f"{chance.choice(PREFIXES)}{word}"
    elif way == 3:
        position = chance.randrange(len(word))
        words[at] = word[:position] + word[position + 1 :]
    elif way == 4:
        words.append(word)
    elif way == 5:
        del words[at]
    elif way == 6:
        words[at] = chance.choice(VALUES)
    elif way < 10:
        words.append(f"{chance.choice(KEYS)}={chance.choice(VALUES)}")
    else:
        position = chance.randrange(len(word))
        words[at] = word[:position] + chance.choice("=,.[]{}$'\"\\ ~+@\n\té") + word[position:]
    return words
