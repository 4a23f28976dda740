"""Damage to files: by exchange for the file of another run, by type, and in time; for every file that a command reads.

The files are those that a scene has, so a new file is damaged without a change here.
"""

import csv
import io
import os
import random
import shutil
import socket
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.faults.events import AtEvent
from tests.faults.scenes import GRID, OTHERS, Scenes
from tests.faults.trials import Case, Ended, Verdict, script

Damage = Callable[[Path], None]
BLOCK = 256  # bytes


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def replaced(make: Damage) -> Damage:
    def damage(path: Path) -> None:
        remove(path)
        make(path)

    return damage


def rewritten(change: Callable[[bytes, random.Random], bytes]) -> Damage:
    """Damage the content in place, so that a process which has the file open or mapped sees it."""

    def damage(path: Path) -> None:
        content = path.read_bytes()
        changed = change(content, random.Random(zlib.crc32(path.name.encode())))
        with open(path, "r+b") as file:
            file.write(changed)
            file.truncate()

    return damage


def flipped(count: int) -> Callable[[bytes, random.Random], bytes]:
    def change(content: bytes, chance: random.Random) -> bytes:
        changed = bytearray(content)
        for position in chance.sample(range(len(changed)), min(count, len(changed))):
            changed[position] ^= 0x55
        return bytes(changed)

    return change


def blocks_swapped(content: bytes, chance: random.Random) -> bytes:
    half = len(content) // 2
    size = min(BLOCK, half)
    return content[half : half + size] + content[size:half] + content[:size] + content[half + size :]


def bound(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket has at most 107 characters
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


TYPES: dict[str, Damage] = {
    "removed": remove,
    "a directory": replaced(Path.mkdir),
    "a FIFO": replaced(os.mkfifo),
    "a socket": replaced(bound),
    "a link to itself": replaced(lambda path: path.symlink_to(path.name)),
    "a link to nothing": replaced(lambda path: path.symlink_to("nothing")),
    "a link to a device": replaced(lambda path: path.symlink_to("/dev/zero")),
    "empty": rewritten(lambda content, _: b""),
    "truncated": rewritten(lambda content, _: content[: len(content) // 2]),
    "one byte": rewritten(flipped(1)),
    "a hundred bytes": rewritten(flipped(100)),
    "two blocks swapped": rewritten(blocks_swapped),
    "longer": rewritten(lambda content, _: content + content[-100:]),
}


def files(outputs: Path) -> list[Path]:
    """Return every file below a folder, without the links of views, relative to the folder."""
    return sorted(path.relative_to(outputs) for path in outputs.rglob("*") if path.is_file() and not path.is_symlink())


def folders(outputs: Path) -> list[Path]:
    return sorted(path.relative_to(outputs) for path in outputs.rglob("*") if path.is_dir() and not path.is_symlink())


class Others:
    """The files of the other runs, by the place that they have in their own outputs."""

    def __init__(self, scenes: Scenes) -> None:
        self.scenes = scenes

    def match(self, path: Path, state: str, other: str) -> Path | None:
        """Return the file of another run that corresponds to a file of the run, or None."""
        theirs = self.scenes.folder / other / state
        kinds = {"cells": ("*", "*"), "cache": ("*",)}.get(path.parts[0], ())
        rest = path.parts[1 + len(kinds) :]
        pattern = str(Path(path.parts[0], *kinds, *rest))
        if path.name.startswith("resume-"):
            pattern = str(Path(pattern).with_name("resume-*.ckpt"))
        if "leases" in path.parts and path.suffix == ".json":
            pattern = str(Path(pattern).with_name("*.json"))
        found = sorted(theirs.glob(pattern))
        return found[-1] if found else None


def exchange(source: Path, keep_name: bool = True) -> Damage:
    """Return the damage that puts another file in the place of a file, under its own name or under that of the file."""

    def damage(path: Path) -> None:
        remove(path)
        target = path if keep_name else path.with_name(source.name)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy(source, target)

    return damage


# Readers of files


def resumed(scenes: Scenes, outputs: Path) -> Verdict:
    return scenes.judged(outputs)


def generated(scenes: Scenes, outputs: Path) -> Verdict:
    """Generate text, and compare it with that of the undisturbed run."""
    words = ("--length", "8", "--temperature", "0")

    def text(where: Path) -> Ended:
        return script("generate.py", str(scenes.directory(where).path), *words, outputs=where)

    return compared(text(outputs), {_once(("generate",), lambda: text(scenes.folder / "finished").output)})


def reports(scenes: Scenes, outputs: Path) -> Verdict:
    """Render the grid; the report equals the undisturbed one, or names the runs that it leaves out."""
    shutil.copytree(scenes.grid / "grids", outputs / "grids", dirs_exist_ok=True)
    return reported(scenes, outputs)


def reported(scenes: Scenes, outputs: Path) -> Verdict:
    """Render the grid as `reports` does, with the table that is there."""

    def report(where: Path) -> Ended:
        return script("table.py", "render", GRID, "--format", "csv", outputs=where)

    lesser = without(scenes, report)
    gone = frozenset(run for run in scenes.runs if absent(outputs, run / "result.json"))
    right = {_once(("report",), lambda: report(scenes.grid).output)} if not gone else {lesser.get(gone, "")}
    ended = report(outputs)
    if ended.code == 0 and unmarked(ended.output) in map(unmarked, right) and ended.output not in right:
        return ended.forbidden() or Verdict("mended", "the last column says what is unknown about a record")
    return compared(ended, right, set(lesser.values()))


def unmarked(text: str) -> list[list[str]]:
    """Return the rows of a report without the column `marks`."""
    return [row[:-1] for row in csv.reader(io.StringIO(text))]


def absent(outputs: Path, path: Path) -> bool:
    """Return True if a file is not there, and nothing else is in the place of it or of a folder above it."""
    present = next(above for above in ((outputs / path), *(outputs / path).parents) if os.path.lexists(above))
    return present != outputs / path and present.is_dir()


_kept: dict[tuple[str, ...], Any] = {}


def _once(key: tuple[str, ...], compute: Callable[[], Any]) -> Any:
    if key not in _kept:
        _kept[key] = compute()
    return _kept[key]


def without(scenes: Scenes, report: Callable[[Path], Ended]) -> dict[frozenset[Path], str]:
    """Return the reports that lack a run, the runs of a row, or all."""

    def compute() -> dict[frozenset[Path], str]:
        cells = [[run for run in scenes.runs if run.parent == cell] for cell in {run.parent for run in scenes.runs}]
        texts = {}
        for gone in ([scenes.runs], cells, [[run] for run in scenes.runs]):
            for runs in gone:
                folder = Path(shutil.copytree(scenes.grid, scenes.folder / "without" / "outputs", symlinks=True))
                for run in runs:
                    shutil.rmtree(folder / run)
                texts[frozenset(runs)] = report(folder).output
                shutil.rmtree(folder.parent)
        return texts

    return _once(("without",), compute)


def compared(ended: Ended, right: set[str], said: set[str] = frozenset()) -> Verdict:
    """Judge what a command printed: what is right, or, if it says so, what remains when a run is left out."""
    if verdict := ended.forbidden():
        return verdict
    if ended.refused:
        return Verdict("refused", ended.errors)
    if ended.output in right:
        return Verdict("mended" if ended.said else "right", ended.errors)
    if ended.output in said and ended.said:
        return Verdict("mended", ended.errors)
    word = "said, but other" if ended.said else "not a word"
    return Verdict("WRONG", f"{word}: {ended.output[:600]} {ended.errors[-300:]}")


READERS: dict[str, tuple[str, Callable[[Scenes, Path], Verdict]]] = {  # command -> the scene that it reads
    "resume": ("stopped", resumed),
    "start again": ("finished", resumed),
    "generate": ("finished", generated),
    "report": ("grid/outputs", reported),
}


def cases(scenes: Scenes) -> list[Case]:
    return [*before(scenes), *during(scenes)]


def before(scenes: Scenes) -> Iterator[Case]:
    """Damage before a command reads: each file and folder of its scene, in each way."""
    others = Others(scenes)
    for reader, (state, judge) in READERS.items():
        home = scenes.folder / state
        for path in files(home):
            for name, damage in TYPES.items():
                yield _case("type", reader, path, name, damage, scenes, judge)
        for path in folders(home):
            for name in ("removed", "a FIFO", "a link to itself"):
                yield _case("type", reader, path, name, TYPES[name], scenes, judge)
        if state == "grid/outputs":
            yield from _exchanged_in_grid(scenes, judge)
            continue
        for path in (*files(home), *folders(home)):
            for other in OTHERS:
                theirs = others.match(path, state, other)
                if theirs is not None:
                    name = f"that of another {other}"
                    yield _case("exchange", reader, path, name, exchange(theirs), scenes, judge)
                    if theirs.name != path.name:
                        name += " under its own name"
                        yield _case("exchange", reader, path, name, exchange(theirs, False), scenes, judge)


def _exchanged_in_grid(scenes: Scenes, judge: Callable[[Scenes, Path], Verdict]) -> Iterator[Case]:
    """Exchange each file of a grid's runs for the same file of another of its runs."""
    runs = sorted(scenes.grid.glob("cells/*/*"))
    for ours in runs:
        for theirs in runs:
            for source in [theirs, *(path for path in theirs.rglob("*") if path.is_file())]:
                path = (ours / source.relative_to(theirs)).relative_to(scenes.grid)
                if theirs != ours and (scenes.grid / path).exists():
                    name = f"that of {theirs.parent.name}/{theirs.name}"
                    yield _case("exchange", "report", path, name, exchange(source), scenes, judge)


def _case(
    how: str,
    reader: str,
    path: Path,
    name: str,
    damage: Damage,
    scenes: Scenes,
    judge: Callable[[Scenes, Path], Verdict],
) -> Case:
    def attempt(folder: Path) -> Verdict:
        outputs = scenes.copy(READERS[reader][0], folder)
        damage(outputs / path)
        return judge(scenes, outputs)

    return Case(f"damage by {how}, before {reader}", f"{reader}: {path} is {name}", attempt)


# Damage while a command runs


EVENTS = 160  # a run of the scene touches its files about as often


def during(scenes: Scenes, count: int = 400) -> Iterator[Case]:
    """Damage one of the files that exist when a running command touches its files for the n-th time."""
    others = Others(scenes)
    for number in range(count):
        state = ("start", "stopped")[number % 2]
        yield Case("damage during a run", f"{state}, number {number}", _underway(scenes, others, state, number))


def _underway(scenes: Scenes, others: Others, state: str, number: int) -> Callable[[Path], Verdict]:
    chance = random.Random(number)
    event, how = chance.randrange(1, EVENTS), chance.choice([*TYPES, *OTHERS])

    def attempt(folder: Path) -> Verdict:
        outputs = folder / "outputs"
        if state == "stopped":
            scenes.copy(state, folder)
        note = folder / "note"

        def harm() -> None:
            present = [path for path in files(outputs) if not path.name.startswith(".")]
            if not present:
                return
            path = chance.choice(present)
            damage = TYPES.get(how)
            if damage is None:
                theirs = others.match(path, "finished", how)
                if theirs is None:
                    return
                damage = exchange(theirs)
            with suppress(FileNotFoundError):
                damage(outputs / path)
            note.write_text(f"{path} is {how} at event {event}")

        verdict = scenes.judged(outputs, fault=lambda: AtEvent(outputs, event, harm))
        detail = note.read_text() if note.exists() else "nothing happened"
        return Verdict(verdict.outcome, f"{detail}: {verdict.details}")

    return attempt
