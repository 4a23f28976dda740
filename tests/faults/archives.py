"""Altered archives of records: bytes, members, and records with nonsense under valid checksums; then an import.

An archive is refused and nothing is written, or what it brings is what was exported.
"""

import gzip
import hashlib
import io
import json
import random
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from highway.files import seal
from tests.faults import nonsense
from tests.faults.damage import reports
from tests.faults.scenes import GRID, Scenes
from tests.faults.trials import Case, Verdict, script

Members = list[tuple[tarfile.TarInfo, bytes]]


def cases(scenes: Scenes, counts: tuple[int, int, int] = (340, 330, 330)) -> list[Case]:
    source = scenes.folder / "records.tar.gz"
    if not source.exists():
        assert script("records.py", "export", str(source), GRID, outputs=scenes.grid).code == 0
    good = source.read_bytes()
    ways = (("bytes", _bytes), ("members", _members), ("resealed records", _resealed))
    return [
        _case(scenes, f"archives: {name}", number, alter, good)
        for (name, alter), count in zip(ways, counts, strict=True)
        for number in range(count)
    ]


def _case(scenes: Scenes, kind: str, number: int, alter: Callable[..., tuple[bytes, str]], good: bytes) -> Case:
    def attempt(folder: Path) -> Verdict:
        content, what = alter(good, random.Random(f"{kind} {number}"))
        (folder / "theirs.tar.gz").write_bytes(content)
        verdict = imported(scenes, folder, folder / "theirs.tar.gz")
        return Verdict(verdict.outcome, f"{what}: {verdict.details}")

    return Case(kind, f"number {number}", attempt)


def imported(scenes: Scenes, folder: Path, archive: Path) -> Verdict:
    outputs = folder / "outputs"
    ended = script("records.py", "import", str(archive), outputs=outputs)
    if verdict := ended.forbidden():
        return verdict
    written = {path.relative_to(outputs): path.read_bytes() for path in outputs.rglob("*") if path.is_file()}
    written = {path: content for path, content in written.items() if "leases" not in path.parts}
    if ended.refused:
        return Verdict("WRONG", f"refused, but wrote {min(written)}") if written else Verdict("refused", ended.errors)
    theirs = [path for path, content in written.items() if not _same(scenes.grid / path, content)]
    if not theirs:
        return Verdict("right")
    return reports(scenes, outputs)  # it was admitted, so whatever reads it must be able to


def _same(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content


def _bytes(good: bytes, chance: random.Random) -> tuple[bytes, str]:
    """Change the file, or the tar within it."""
    inside = chance.random() < 0.5
    content = bytearray(gzip.decompress(good) if inside else good)
    how = chance.choice(("one", "hundred", "cut", "longer", "twice", "block"))
    at = chance.randrange(len(content))
    if how in ("one", "hundred"):
        for position in chance.sample(range(len(content)), 1 if how == "one" else 100):
            content[position] = chance.randrange(256)
    elif how == "cut":
        del content[at:]
    elif how == "longer":
        content += chance.randbytes(chance.choice((1, 512, 5000)))
    elif how == "twice":
        content += bytes(content)
    else:
        content[at : at + 512] = bytes(512)
    return gzip.compress(bytes(content), mtime=0) if inside else bytes(content), f"{how}, inside: {inside}, at {at}"


def unpacked(content: bytes) -> Members:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return [(member, archive.extractfile(member).read()) for member in archive]  # type: ignore[union-attr]


def packed(members: Members) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for member, content in members:
            member.size = len(content) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(content))
    return target.getvalue()


NAMES = ("../{}", "/{}", "{}/", "./{}", "{}.gz", "x/{}", "{}\0", "{}\n", "\u202e{}", "{0}/{0}", "", ".", "a" * 5000)
KINDS = {
    "a link": tarfile.SYMTYPE,
    "a hard link": tarfile.LNKTYPE,
    "a FIFO": tarfile.FIFOTYPE,
    "a device": tarfile.CHRTYPE,
    "a folder": tarfile.DIRTYPE,
}


def _members(good: bytes, chance: random.Random) -> tuple[bytes, str]:
    """Drop, repeat, rename, retype or exchange members; their records stay as they are."""
    members = unpacked(good)
    number = chance.randrange(len(members))
    member, content = members[number]
    what = chance.choice(("dropped", "twice", "renamed", "retyped", "exchanged", "flipped", "moved", "empty", "sized"))
    detail = ""
    if what == "dropped":
        del members[number]
    elif what == "twice":
        members.append((member, content))
    elif what == "renamed":
        members[number][0].name = detail = chance.choice(NAMES).format(member.name)
    elif what == "retyped":
        detail = chance.choice(sorted(KINDS))
        member.type, member.linkname = KINDS[detail], chance.choice(("/etc/passwd", "../x", members[0][0].name))
    elif what == "exchanged":
        alike = [i for i, (other, _) in enumerate(members) if other.name.endswith(member.name.rsplit("/")[-1])]
        other = chance.choice(alike)
        members[number], members[other] = (member, members[other][1]), (members[other][0], content)
    elif what == "flipped":
        position = chance.randrange(len(content))
        members[number] = (member, content[:position] + bytes([content[position] ^ 0x55]) + content[position + 1 :])
    elif what == "moved":
        run = str(Path(member.name).parents[-3])
        detail = chance.choice((run.replace("seed1", "seed7"), run.replace("-", "-0", 1), "other-0123456789ab/seed1"))
        for moved, _ in members:
            moved.name = moved.name.replace(run, detail)
    elif what == "empty":
        members[number] = (member, b"")
    else:
        raw = bytearray(gzip.decompress(packed(members)))
        raw[124:136] = chance.choice((b"77777777777\0", b"-0000000001\0", b"\xff" * 12, b"abc".ljust(12, b"\0")))
        return gzip.compress(bytes(raw)), "the size in a header"
    return packed(members), f"{member.name} {what} {detail}"


def _resealed(good: bytes, chance: random.Random) -> tuple[bytes, str]:
    """Put nonsense into a record or its files, and compute all checksums anew, as an adversary can."""
    members = unpacked(good)
    folder = chance.choice(
        sorted({member.name.rsplit("/result.json")[0] for member, _ in members if "result" in member.name})
    )
    contents = {member.name.removeprefix(f"{folder}/"): content for member, content in members if folder in member.name}
    record = json.loads(contents["result.json"])
    if chance.random() < 0.75:
        changed, what = nonsense.changed({key: value for key, value in record.items() if key != "sha256"}, chance)
    else:
        changed, what = record, _curve_or_config(contents, chance)
        changed["files"] = {name: hashlib.sha256(contents[name]).hexdigest() for name in record["files"]}
    contents["result.json"] = resealed(changed)
    return packed(
        [(member, contents.get(member.name.removeprefix(f"{folder}/"), content)) for member, content in members]
    ), what


def _curve_or_config(contents: dict[str, bytes], chance: random.Random) -> str:
    name = chance.choice(("curves.csv", "config.yaml"))
    lines = contents[name].decode().splitlines()
    number = chance.randrange(len(lines))
    words = ("=1+1", "nan", "-1", "1e999", "", "\0", "x" * 9999, "*a", "&a [*a]", "!!python/name:os.system", "10" * 200)
    word = chance.choice(words)
    separator = "," if name == "curves.csv" else ": "
    cells = lines[number].split(separator)
    position = chance.randrange(len(cells))
    cells[position] = word
    lines[number] = separator.join(cells)
    contents[name] = "\n".join(lines).encode() + b"\n"
    return f"{name}, line {number}, part {position} is {word[:30]!r}"


def resealed(content: Any) -> bytes:
    """Return a record with a valid checksum, whatever its content is."""
    if isinstance(content, dict) and all(isinstance(key, str) for key in content):
        try:
            return seal.sealed(content)
        except TypeError:  # keys that cannot be sorted
            pass
    return json.dumps(content, default=str).encode()
